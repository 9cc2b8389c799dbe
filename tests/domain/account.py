"""A second account of `law/1`, written from the design's sections 3 and 5 alone.

It shares no code with `causebook.domain` and is written in another manner: one function that walks a script
of plain data, with a JSON reader, a path tidier and a memory of its own. Where the two accounts disagree, one
of them has misread the law. Not fast, and not meant to be.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

NEEDED = object()

# tool -> argument -> (kind, what it is when left out, least, most)
SIGNATURES: dict[str, dict[str, tuple[str, Any, int, int]]] = {
    "read_file": {"path": ("path", NEEDED, 0, 0)},
    "read_file_lines": {
        "path": ("path", NEEDED, 0, 0),
        "start": ("number", NEEDED, 1, 10_000_000),
        "end": ("number", NEEDED, 1, 10_000_000),
    },
    "list_files": {"directory": ("path", ".", 0, 0)},
    "summarize_directory": {"directory": ("path", ".", 0, 0)},
    "git_show": {"ref": ("word", NEEDED, 0, 0), "path": ("path", NEEDED, 0, 0)},
    "git_log": {"n": ("number", 5, 1, 100)},
    "read_diff_between_refs": {"ref1": ("word", NEEDED, 0, 0), "ref2": ("word", NEEDED, 0, 0)},
}

Look = Callable[[str, Mapping[str, Any]], tuple[tuple[int, int] | None, bool]]
"""Runs a read with tidied arguments: (first and last line answered or None, whether it failed)."""


@dataclass(frozen=True)
class Said:
    """What a model did in one turn: the tries that failed, then its calls (id, name, argument text).

    A try is `busy` (another may work), `declines` (answered 400 to `tool_choice`) or `broken` (no other will
    work). A turn has three tries; one that declines `tool_choice` where it was sent is asked again for free.
    """

    failures: tuple[str, ...]
    calls: tuple[tuple[str | None, str, str], ...]


@dataclass(frozen=True)
class TurnAccount:
    """What one turn came to. `outcomes`: a tuple for each call, its first item what became of it."""

    withdrawn: str | None
    outcomes: tuple[tuple[Any, ...], ...]
    charged: bool | None
    used: int
    stall: int


@dataclass(frozen=True)
class Account:
    """The turns, and the ending: ("verdict", severity, words), ("error", cause) or None while open."""

    turns: tuple[TurnAccount, ...]
    ending: tuple[str, ...] | None


def judge_by_the_book(
    most_turns: int,
    tools: Sequence[str],
    phase: str,
    root: str | None,
    script: Sequence[Said],
    look: Look,
    most_stalls: int = 3,
) -> Account:
    active = [t for t in tools if phase == "post_execute" or t != "read_diff_between_refs"]
    used = stall = 0
    narrated = False
    seen: list[tuple[str, dict[str, Any], int]] = []
    covered: list[tuple[str, int, int, int]] = []
    turns: list[TurnAccount] = []

    for number, said in enumerate(script, start=1):
        # rule 1
        if not active:
            withdrawn = "none_granted"
        elif narrated:
            withdrawn = "narration"
        elif stall >= most_stalls:
            withdrawn = "stall"
        elif used >= most_turns - 1:
            withdrawn = "budget"
        else:
            withdrawn = None

        # rules 8 and 9
        may_decline, left = withdrawn is not None, 3
        for failure in said.failures:
            if failure == "declines" and may_decline:
                may_decline = False
            else:
                left = left - 1 if failure == "busy" else 0
            if left == 0:
                break
        if left == 0:
            turns.append(TurnAccount(withdrawn, (), None, used, stall))
            return Account(tuple(turns), ("error", "provider_fault"))

        calls = within_limits(said.calls[:64])
        more = len(said.calls) - len(calls)

        # rule 3
        verdicts = [as_verdict(call) for call in calls]
        good = {v for v in verdicts if v is not None and v[0] == "good"}
        if len(good) == 1:
            (chosen,) = good
            taken = verdicts.index(chosen)
            outcomes: list[tuple[Any, ...]] = [("ignored",)] * len(calls)
            outcomes[taken] = ("taken",)
            if more:
                outcomes.append(("beyond", more))
            turns.append(TurnAccount(withdrawn, tuple(outcomes), True, used + 1, 0))
            return Account(tuple(turns), ("verdict", chosen[1], chosen[2]))

        # rules 4, 5, 6
        progress = False
        told: list[tuple[Any, ...]] = []
        for call, verdict in zip(calls, verdicts, strict=True):
            if verdict is not None:
                told.append(("rejected", "differ" if verdict[0] == "good" else verdict[1]))
                progress = True
                continue
            wrong, name, arguments = as_read(call, active, withdrawn is not None, root)
            if wrong:
                told.append(("refused", wrong))
                progress = True
                continue
            again = [("exact", when) for n, a, when in seen if (n, a) == (name, arguments)]
            if not again and name == "read_file_lines":
                wanted = range(arguments["start"], arguments["end"] + 1)
                again = [
                    ("contained", when)
                    for path, first, last, when in covered
                    if path == arguments["path"]
                    and len(wanted) > 0
                    and first <= wanted[0]
                    and wanted[-1] <= last
                ]
            if again:
                told.append(("repeat", *again[0]))
                continue
            lines, failed = look(name, arguments)
            told.append(("fresh", name, arguments, failed))
            seen.append((name, arguments, number))
            if lines is not None and not failed and name in ("read_file", "read_file_lines"):
                covered.append((arguments["path"], *lines, number))
            progress = True
        if more:
            told.append(("beyond", more))
        if not calls:
            told.append(("narrated",))
            progress = narrated = True

        # rule 7
        if progress:
            used, stall = used + 1, 0
        else:
            stall += 1
        turns.append(TurnAccount(withdrawn, tuple(told), progress, used, stall))
        if withdrawn:
            return Account(tuple(turns), ("error", "no_verdict"))
    return Account(tuple(turns), None)


# ── calls ──────────────────────────────────────────────────────────────────────────────────────────

OVER, NOT_UNICODE = object(), object()


def within_limits(calls: Sequence[tuple[str | None, str, str]]) -> list[tuple[Any, Any, Any]]:
    """The calls with each text that is over a limit of section 5, or not Unicode, marked so."""
    kept: list[tuple[Any, Any, Any]] = []
    left = 24 * 1024
    for ident, name, text in calls:
        most = 16 * 1024 if name == "submit_verdict" else 4 * 1024
        marked = _mark(text, min(most, left))
        if marked is text:
            left -= written_size(text) or 0
        kept.append((None if ident is None else _mark(ident, 128), _mark(name, 128), marked))
    return kept


def _mark(text: str, most: int) -> Any:
    size = written_size(text)
    if size is None:
        return NOT_UNICODE
    return OVER if size > most else text


def written_size(text: str) -> int | None:
    """Bytes of `text` inside the quotes of canonical JSON; None for a lone surrogate."""
    size = 0
    for character in text:
        code = ord(character)
        if 0xD800 <= code <= 0xDFFF:
            return None
        if character in '"\\\b\f\n\r\t':
            size += 2
        elif code < 0x20:
            size += 6
        else:
            size += 1 if code < 0x80 else 2 if code < 0x800 else 3 if code < 0x10000 else 4
    return size


def _first_mark(*texts: Any) -> str | None:
    for text in texts:
        if text is OVER:
            return "limit"
        if text is NOT_UNICODE:
            return "unicode"
    return None


def as_verdict(call: tuple[Any, Any, Any]) -> tuple[str, str, str] | None:
    """None where the call is no submit_verdict; ("good", severity, words) or ("bad", why, "")."""
    ident, name, text = call
    if name != "submit_verdict":
        return None
    mark = _first_mark(ident, text)
    if mark is not None:
        return ("bad", mark, "")
    value, broken = read_json(text)
    if broken:
        return ("bad", broken, "")
    severity = value.get("severity")
    if not isinstance(severity, str):
        return ("bad", "severity", "")
    while severity[:1] in (" ", "\t", "\r", "\n") and severity:
        severity = severity[1:]
    while severity[-1:] in (" ", "\t", "\r", "\n") and severity:
        severity = severity[:-1]
    severity = "".join(chr(ord(c) + 32) if "A" <= c <= "Z" else c for c in severity)
    if severity not in ("pass", "warn", "blocker"):
        return ("bad", "severity", "")
    words = value.get("justification")
    if not isinstance(words, str):
        return ("bad", "justification", "")
    size = written_size(words)
    if size is None or size > 8 * 1024 or words.isspace() or not words:
        return ("bad", "justification", "")
    return ("good", severity, words)


def as_read(
    call: tuple[Any, Any, Any], active: Sequence[str], withdrawn: bool, root: str | None
) -> tuple[str, str, dict[str, Any]]:
    """("", tool, tidied arguments), or (what is wrong, "", {})."""
    ident, name, text = call
    mark = _first_mark(name, ident)
    if mark is not None:
        return mark, "", {}
    if name not in active:
        return "not offered", "", {}
    if withdrawn:
        return "withdrawn", "", {}
    mark = _first_mark(text)
    if mark is not None:
        return mark, "", {}
    value, broken = read_json(text)
    if broken:
        return broken, "", {}
    signature = SIGNATURES[name]
    if set(value) - set(signature):
        return "unfit", "", {}
    tidied: dict[str, Any] = {}
    for argument, (kind, left_out, least, most) in signature.items():
        given = value.get(argument)
        if given is None:
            if left_out is NEEDED:
                return "unfit", "", {}
            continue
        if kind == "number":
            if type(given) is not int or given < least or given > most:
                return "unfit", "", {}
        elif type(given) is not str:
            return "unfit", "", {}
        tidied[argument] = given
    for argument, given in list(tidied.items()):
        if isinstance(given, str) and written_size(given) is None:
            return "unicode", "", {}
        if signature[argument][0] == "path":
            tidied[argument] = tidy(given, root)
        if tidied[argument] == signature[argument][1]:
            del tidied[argument]
    return "", name, tidied


# ── paths ──────────────────────────────────────────────────────────────────────────────────────────


def tidy(path: str, root: str | None) -> str:
    """The one spelling of a path argument."""
    path = _slashed(path)
    if root is not None and path.startswith("/"):
        top = _slashed(root).strip("/")
        inside = path.strip("/")
        if top == "":
            path = inside
        elif inside == top:
            path = ""
        elif inside.startswith(top + "/"):
            path = inside[len(top) + 1 :]
    return path or "."


def _slashed(path: str) -> str:
    path = path.replace("\\", "/")
    while "//" in path:
        path = path.replace("//", "/")
    while "/./" in path:
        path = path.replace("/./", "/")
    while path.startswith("./"):
        path = path[2:]
    if path.endswith("/."):
        path = path[:-1]
    if path == ".":
        return ""
    return path if path == "/" else path.removesuffix("/")


# ── JSON, by RFC 8259 ──────────────────────────────────────────────────────────────────────────────


class _Broken(Exception):
    pass


class _Twice(Exception):
    pass


def read_json(text: str) -> tuple[dict[str, Any], str]:
    """(the object that `text` is, ""), or ({}, what is wrong)."""
    reader = _Reader(text)
    try:
        value = reader.document()
    except _Broken:
        return {}, "broken"
    except _Twice:
        return {}, "twice"
    return (value, "") if isinstance(value, dict) else ({}, "no object")


class _Reader:
    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def document(self) -> Any:
        value = self.value(0)
        self.blanks()
        if self.at != len(self.text):
            raise _Broken
        return value

    def blanks(self) -> None:
        while self.at < len(self.text) and self.text[self.at] in " \t\r\n":
            self.at += 1

    def eat(self, expected: str) -> bool:
        self.blanks()
        if self.text.startswith(expected, self.at):
            self.at += len(expected)
            return True
        return False

    def must(self, expected: str) -> None:
        if not self.eat(expected):
            raise _Broken

    def value(self, depth: int) -> Any:
        if self.eat("{"):
            if depth == 64:
                raise _Broken
            return self.members(depth)
        if self.eat("["):
            if depth == 64:
                raise _Broken
            return self.items(depth)
        if self.eat('"'):
            return self.string()
        for word, meaning in (("true", True), ("false", False), ("null", None)):
            if self.eat(word):
                return meaning
        return self.number()

    def members(self, depth: int) -> dict[str, Any]:
        members: dict[str, Any] = {}
        names = 0
        if self.eat("}"):
            return members
        while True:
            self.must('"')
            name = self.string()
            self.must(":")
            members[name] = self.value(depth + 1)
            names += 1
            if self.eat("}"):
                break
            self.must(",")
        if names != len(members):
            raise _Twice
        return members

    def items(self, depth: int) -> list[Any]:
        items: list[Any] = []
        if self.eat("]"):
            return items
        while True:
            items.append(self.value(depth + 1))
            if self.eat("]"):
                return items
            self.must(",")

    def string(self) -> str:
        units: list[int] = []
        while True:
            if self.at >= len(self.text):
                raise _Broken
            character = self.text[self.at]
            self.at += 1
            if character == '"':
                break
            if ord(character) < 0x20:
                raise _Broken
            if character != "\\":
                units.append(ord(character))
                continue
            escape = self.text[self.at : self.at + 1]
            self.at += 1
            if escape == "u":
                digits = self.text[self.at : self.at + 4]
                if len(digits) != 4 or any(d not in "0123456789abcdefABCDEF" for d in digits):
                    raise _Broken
                self.at += 4
                low = int(digits, 16)
                # A high half that was itself written as an escape joins the low half after it.
                if 0xDC00 <= low <= 0xDFFF and units and -0xDBFF <= units[-1] <= -0xD800:
                    units[-1] = 0x10000 + ((-units[-1] - 0xD800) << 10) + (low - 0xDC00)
                else:
                    units.append(-low if 0xD800 <= low <= 0xDBFF else low)
            elif escape and escape in '"\\/bfnrt':
                units.append(ord('"\\/\b\f\n\r\t'['"\\/bfnrt'.index(escape)]))
            else:
                raise _Broken
        return "".join(chr(abs(unit)) for unit in units)

    def number(self) -> int | float:
        start = self.at
        if self.text.startswith("-", self.at):
            self.at += 1
        whole = self.digits()
        if not whole or (len(whole) > 1 and whole[0] == "0"):
            raise _Broken
        real = False
        if self.text.startswith(".", self.at):
            self.at += 1
            real = True
            if not self.digits():
                raise _Broken
        if self.text[self.at : self.at + 1] in ("e", "E"):
            self.at += 1
            real = True
            if self.text[self.at : self.at + 1] in ("+", "-"):
                self.at += 1
            if not self.digits():
                raise _Broken
        token = self.text[start : self.at]
        return float(token) if real or len(token) > 30 else int(token)

    def digits(self) -> str:
        start = self.at
        while self.at < len(self.text) and self.text[self.at] in "0123456789":
            self.at += 1
        return self.text[start : self.at]
