"""Repeat reads: what makes two reads the same, and which were answered already.

Identity is (tool, arguments) after normalising:

- in arguments that are paths `\\` becomes `/`, runs of `/` collapse to one, `.` parts and a trailing `/` go,
  an absolute path under the root becomes relative, empty is `.`; `..` is not folded, because a link may
  stand before it;
- arguments that are null or equal to the default are dropped, and keys are sorted.

Two ways to match, and the event says which:

- `exact`: the same identity was answered before, well or with an error;
- `contained`: `read_file_lines` asks for lines that one earlier successful answer of the same file covers,
  by the lines answered, not by those it was asked for.

`ReadMemory` is the whole of it, and is public: an engine's own loop, a coder's say, can intercept repeats
with it under no turn budget and with no charge. Tools that are not ours have no path arguments and no
defaults, and match `exact` only. No IO here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from .canonical import encode
from .tools import READ_TOOLS


class Read(NamedTuple):
    """One read, normalised. `key` is its identity: SHA-256, hex, of canonical JSON `[tool, arguments]`.

    `target` is for people: the path, the lines, the refs.
    """

    tool: str
    arguments: Mapping[str, Any]
    target: str
    key: str


@dataclass(frozen=True)
class Repeat:
    """A read that was answered already, in turn `first_turn`."""

    first_turn: int
    match: Literal["exact", "contained"]


def normalise_path(path: str, root: str | None = None) -> str:
    """`path` in its one spelling, relative where it lies under `root` (an absolute path, or None)."""
    path = path.replace("\\", "/")
    absolute = path.startswith("/")
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if absolute and root is not None:
        above = [part for part in root.replace("\\", "/").split("/") if part not in ("", ".")]
        if parts[: len(above)] == above:
            absolute, parts = False, parts[len(above) :]
    joined = "/".join(parts)
    return "/" + joined if absolute else joined or "."


def normalise(tool: str, arguments: Mapping[str, Any], root: str | None = None) -> Read:
    """The read that a call of `tool` with `arguments` asks for.

    The arguments of our own tools must fit (`Tool.misfit`). Raises `ValueError` where the arguments cannot
    be written as JSON text: a lone surrogate.
    """
    known = READ_TOOLS[tool].by_name if tool in READ_TOOLS else {}
    kept = {}
    for name in sorted(arguments):
        value = arguments[name]
        if value is None:
            continue
        argument = known.get(name)
        if argument is not None:
            if argument.is_path:
                value = normalise_path(value, root)
            if value == argument.default:
                continue
        kept[name] = value
    key = hashlib.sha256(encode([tool, kept])).hexdigest()
    return Read(tool, kept, _target(tool, kept), key)


def _target(tool: str, kept: Mapping[str, Any]) -> str:
    match tool:
        case "read_file":
            return str(kept["path"])
        case "read_file_lines":
            return f"{kept['path']}:{kept['start']}-{kept['end']}"
        case "list_files" | "summarize_directory":
            return str(kept.get("directory", "."))
        case "git_show":
            return f"{kept['ref']}:{kept['path']}"
        case "git_log":
            return f"newest {kept.get('n', 5)}"
        case "read_diff_between_refs":
            return f"{kept['ref1']}..{kept['ref2']}"
        case _:
            return encode(kept).decode()


@dataclass
class ReadMemory:
    """Which reads were answered, and when. Grows with `remember`; looks up with `repeat_of`.

    memory = ReadMemory(root="/src/app")
    read = memory.read("read_file", {"path": "./a.py"})
    if (repeat := memory.repeat_of(read)) is None:
        answer = ...                                  # run it
        memory.remember(read, turn=1, lines=(1, 80))
    """

    root: str | None = None
    _first_turn: dict[str, int] = field(default_factory=dict)
    _answered: dict[str, list[tuple[int, int, int]]] = field(default_factory=dict)

    def read(self, tool: str, arguments: Mapping[str, Any]) -> Read:
        """`normalise` under this memory's root."""
        return normalise(tool, arguments, self.root)

    def repeat_of(self, read: Read) -> Repeat | None:
        """The answer that `read` repeats: the earliest that matches `exact`, else `contained`."""
        turn = self._first_turn.get(read.key)
        if turn is not None:
            return Repeat(turn, "exact")
        if read.tool == "read_file_lines":
            start, end = read.arguments["start"], read.arguments["end"]
            for first, last, turn in self._answered.get(read.arguments["path"], ()):
                if first <= start <= end <= last:
                    return Repeat(turn, "contained")
        return None

    def remember(
        self, read: Read, *, turn: int, lines: tuple[int, int] | None = None, error: bool = False
    ) -> None:
        """`read` was answered in `turn`. A failed answer covers no lines: it matches `exact` only."""
        self._first_turn.setdefault(read.key, turn)
        if lines is not None and not error and read.tool in ("read_file", "read_file_lines"):
            self._answered.setdefault(read.arguments["path"], []).append((*lines, turn))


def lines_fault(read: Read, lines: tuple[int, int] | None, *, error: bool = False) -> str | None:
    """Why `lines` cannot be those that an answer to `read` holds, or None. `error`: the tool failed, and
    whatever lines it names cover none.

    A claim to lines that were never asked for would make a later read of them a repeat.
    """
    if lines is None or error:
        return None
    first, last = lines
    match read.tool:
        case "read_file":
            fits = 1 <= first <= last
        case "read_file_lines":
            fits = read.arguments["start"] <= first <= last <= read.arguments["end"]
        case _:
            return f"lines: expected null, as {read.tool} answers no lines of a file"
    return None if fits else f"lines: expected within those asked for, found {first} to {last}"
