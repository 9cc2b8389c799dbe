"""The protocol: the TOML file that says who judges, by what, with which tools, under which policy.

    policy = "unanimous"            # unanimous, majority, quorum or any
    phase = "post_execute"          # pre_execute or post_execute
    timeout_seconds = 120           # optional: how long one try of a model may take

    [[judge]]                       # 1 to 32 of them
    id = "security"
    model = "openai/gpt-4o"         # or script:FILE, relative to this file
    criteria = ["Input is checked before it is used."]
    tools = ["read_file"]           # optional: all seven read tools by default, [] for none
    max_tool_turns = 20             # optional

An error names the file, the judge by its place from 1, the key, what was expected and what was found.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, get_args

from ..domain.errors import BadData, Misuse
from ..domain.events import Phase, Policy
from ..domain.limits import JUDGES_MAX, TURNS_DEFAULT, TURNS_MAX
from ..domain.streams import require_id, shorten
from ..domain.tools import READ_TOOLS
from .files import read_file
from .models.choose import SCRIPT_PREFIX, TIMEOUT_SECONDS
from .seat import DEFAULT_TOOLS, Judge

PROTOCOL_BYTES_MAX: Final = 1024 * 1024
TIMEOUT_SECONDS_MAX: Final = 3600.0

_KEYS: Final = ("policy", "phase", "timeout_seconds", "judge")
_JUDGE_KEYS: Final = ("id", "model", "criteria", "tools", "max_tool_turns")
_KEY_PARTS_MAX: Final = 64
_DOTS: Final = re.compile(r"\.{2,}")
_KEY_RUN: Final = re.compile(r"[\w.\t \"'-]+")
"""What can stand in a dotted key, and a good deal of prose: no line of that has so many single dots."""
_POSITION: Final = re.compile(r"(.*) \(at line (\d+), column (\d+)\)", re.DOTALL)


@dataclass(frozen=True)
class Protocol:
    """A protocol that was read and holds. `phase` is None where the file leaves it open.

    `paths`: the model to load for each judge: what the file says, a `script:` path taken from the file's own
    folder. What is recorded is the name as it stands in the file (`Judge.model`).
    """

    policy: Policy
    phase: Phase | None
    judges: tuple[Judge, ...]
    paths: Mapping[str, str]
    timeout_seconds: float

    def with_models(self, names: Mapping[str, str]) -> Protocol:
        """The same protocol with other models for some judges. Raises `Misuse` for one it does not have."""
        known = {judge.id for judge in self.judges}
        for name in names:
            if name not in known:
                raise Misuse(
                    f"--model: expected a judge of the protocol, found {shorten(name)}",
                    hint="there are " + ", ".join(one.id for one in self.judges),
                )
        judges = tuple(
            replace(judge, model=names.get(judge.id, judge.model)) for judge in self.judges
        )
        for judge in judges:
            judge.check()
        return replace(self, judges=judges, paths={**self.paths, **names})


def load_protocol(path: str | Path) -> Protocol:
    """Read the protocol at `path`.

    Raises `NoInput` where there is no such file, `Denied` or `IOFailure` where it cannot be read, `BadData`
    naming file and key where it is not a protocol.
    """
    name = str(path)
    document = _toml(name, _read(name))
    return _Reader(name).protocol(document, Path(path).parent)


def _read(name: str) -> bytes:
    hint = "--protocol names a TOML file with policy, phase and a [[judge]] table for each judge"
    return read_file(name, PROTOCOL_BYTES_MAX, "a protocol", hint=hint)


def _toml(name: str, content: bytes) -> dict[str, Any]:
    hint = 'a protocol is TOML: policy = "unanimous" and so on, https://toml.io'
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise BadData(
            f"{name}, line {line}: expected UTF-8, found byte 0x{content[error.start]:02x}",
            hint="save the file as UTF-8",
        ) from None
    runs = (run for line in text.split("\n") for run in _KEY_RUN.findall(_DOTS.sub("", line)))
    if any(run.count(".") > _KEY_PARTS_MAX for run in runs):
        # The parser's time grows with the square of a dotted key's length and more.
        raise BadData(f"{name}: expected keys of at most {_KEY_PARTS_MAX} parts", hint=hint)
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise BadData(f"{name}: expected a protocol, found too deep a nesting", hint=hint) from None
    except ValueError as error:  # TOMLDecodeError is one, and so is an integer of 5,000 digits
        said = _POSITION.fullmatch(str(error))
        if said is None:
            raise BadData(f"{name}: expected TOML, found: {error}", hint=hint) from None
        raise BadData(
            f"{name}, line {said[2]}, column {said[3]}: expected TOML, found: {said[1]}", hint=hint
        ) from None


@dataclass(frozen=True)
class _Reader:
    name: str

    def protocol(self, document: Mapping[str, Any], folder: Path) -> Protocol:
        self._known("", document, _KEYS)
        policy: Policy = self._one_of("policy", document, get_args(Policy))
        phase: Phase | None = None
        if "phase" in document:
            phase = self._one_of("phase", document, get_args(Phase))
        tables = document.get("judge", [])
        if not isinstance(tables, list) or not all(isinstance(t, dict) for t in tables):
            raise self._bad("judge", "tables [[judge]]", tables, "write [[judge]], in two brackets")
        if not 1 <= len(tables) <= JUDGES_MAX:
            raise BadData(
                f"{self.name}, judge: expected 1 to {JUDGES_MAX} tables [[judge]], found {len(tables)}",
                hint="a table each for the judges of the panel",
            )
        judges: dict[str, Judge] = {}
        paths = {}
        for number, table in enumerate(tables, 1):
            judge = self._judge(f"judge {number}", table)
            if judge.id in judges:
                first = list(judges).index(judge.id) + 1
                raise BadData(
                    f"{self.name}, judge {number}, id: expected another id, found {judge.id} as in "
                    f"judge {first}",
                    hint="each judge of a panel has an id of its own",
                )
            judges[judge.id] = judge
            paths[judge.id] = _path(judge.model, folder)
        return Protocol(policy, phase, tuple(judges.values()), paths, self._timeout(document))

    def _judge(self, where: str, table: Mapping[str, Any]) -> Judge:
        self._known(where, table, _JUDGE_KEYS)
        identity = self._text(f"{where}, id", table.get("id"), "a name such as security")
        try:
            require_id(identity, "judge")
        except Misuse as error:
            raise BadData(f"{self.name}, {where}, {error.message}", hint=error.hint) from None
        judge = Judge(
            id=identity,
            model=self._text(f"{where}, model", table.get("model"), "openai/gpt-4o or script:FILE"),
            criteria=self._texts(f"{where}, criteria", table.get("criteria")),
            tools=self._tools(f"{where}, tools", table),
            max_tool_turns=self._turns(f"{where}, max_tool_turns", table),
        )
        try:
            judge.check()
        except Misuse as error:
            what = error.message.removeprefix(f"judge {judge.id}, ")
            hint = error.hint or "see what a judge needs in the documentation of protocols"
            raise BadData(f"{self.name}, {where}, {what}", hint=hint) from None
        return judge

    def _known(self, where: str, table: Mapping[str, Any], keys: tuple[str, ...]) -> None:
        place = f"{self.name}, {where}" if where else self.name
        for key in table:
            if key not in keys:
                raise BadData(
                    f"{place}: expected only known keys, found {shorten(key)}",
                    hint="there are " + ", ".join(keys),
                )

    def _one_of(self, key: str, table: Mapping[str, Any], allowed: tuple[str, ...]) -> Any:
        value = table.get(key)
        if not isinstance(value, str) or value not in allowed:
            raise self._bad(key, " or ".join(allowed), value, f'for example {key} = "{allowed[0]}"')
        return value

    def _text(self, where: str, value: object, example: str) -> str:
        if not isinstance(value, str) or not value.strip():
            raise self._bad(where, "text that is not empty", value, f"for example {example}")
        return value

    def _texts(self, where: str, value: object) -> tuple[str, ...]:
        hint = 'for example criteria = ["Every change has a test."]'
        if not isinstance(value, list) or not value:
            raise self._bad(where, "a list of texts, at least one", value, hint)
        for place, item in enumerate(value, 1):
            if not isinstance(item, str) or not item.strip():
                raise self._bad(f"{where}, item {place}", "text that is not empty", item, hint)
        return tuple(value)

    def _tools(self, where: str, table: Mapping[str, Any]) -> tuple[str, ...]:
        value = table.get("tools", list(DEFAULT_TOOLS))
        hint = "there are " + ", ".join(READ_TOOLS)
        if not isinstance(value, list):
            raise self._bad(where, "a list of read tools", value, hint)
        for tool in value:
            if not isinstance(tool, str) or tool not in READ_TOOLS:
                raise self._bad(where, "read tools", tool, hint)
        return tuple(value)

    def _turns(self, where: str, table: Mapping[str, Any]) -> int:
        value = table.get("max_tool_turns", TURNS_DEFAULT)
        hint = f"the default is {TURNS_DEFAULT}; a judge with no tools decides on its first turn"
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= TURNS_MAX:
            raise self._bad(where, f"1 to {TURNS_MAX}", value, hint)
        return value

    def _timeout(self, document: Mapping[str, Any]) -> float:
        value = document.get("timeout_seconds", TIMEOUT_SECONDS)
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not 0 < value <= TIMEOUT_SECONDS_MAX  # which no NaN is either
        ):
            raise self._bad(
                "timeout_seconds",
                f"seconds, more than 0 and at most {TIMEOUT_SECONDS_MAX:.0f}",
                value,
                f"the default is {TIMEOUT_SECONDS:.0f}, for one try of a model",
            )
        return float(value)

    def _bad(self, where: str, expected: str, found: object, hint: str) -> BadData:
        return BadData(
            f"{self.name}, {where}: expected {expected}, found {_shown(found)}", hint=hint
        )


def _path(model: str, folder: Path) -> str:
    if not model.startswith(SCRIPT_PREFIX):
        return model
    name = model.removeprefix(SCRIPT_PREFIX)
    return SCRIPT_PREFIX + str(folder / name) if name else model


def _shown(value: object) -> str:
    match value:
        case None:
            return "nothing"
        case bool():
            return "true" if value else "false"
        case str():
            return shorten(value) if value else "an empty text"
        case int() | float():
            return shorten(str(value)).strip("'") if abs(value) < 10**15 else "a number beyond that"
        case list():
            return "a list" if value else "an empty list"
        case dict():
            return "a table"
    return "a date or time"
