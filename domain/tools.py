"""The tools that a judge may be offered: what they are called, what they take, when they are active.

Seven read tools, all read-only, and `submit_verdict`. A tool is data here; what runs it is an adapter
(`adapters/workspace.py`). The table `READ_TOOLS` is the only place that names their arguments: the
definitions sent to a model, the check of a call's arguments and the normalisation of a read all come
from it, so they cannot drift apart.

An argument that is not named here does not fit the schema; there is no `additionalProperties`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Final, Literal

from .canonical import encode

SUBMIT_VERDICT: Final = "submit_verdict"
SEVERITIES: Final = ("pass", "warn", "blocker")

JsonType = Literal["string", "integer"]


@dataclass(frozen=True)
class Argument:
    """One argument of a tool. `default` is None where the argument is required."""

    name: str
    kind: JsonType
    meaning: str
    default: str | int | None = None
    is_path: bool = False
    minimum: int | None = None
    maximum: int | None = None


@dataclass(frozen=True)
class Tool:
    """One read tool: its arguments in order, and the phases in which it is active."""

    name: str
    meaning: str
    arguments: tuple[Argument, ...]
    phases: frozenset[str] = frozenset({"pre_execute", "post_execute"})

    @cached_property
    def by_name(self) -> Mapping[str, Argument]:
        """Each argument by its name."""
        return {argument.name: argument for argument in self.arguments}

    def defaults(self) -> dict[str, str | int]:
        """The arguments a caller may leave out, with the value that then holds."""
        return {a.name: a.default for a in self.arguments if a.default is not None}

    def misfit(self, arguments: Mapping[str, Any]) -> str | None:
        """Why `arguments` do not fit, in a few fixed words, or None if they do.

        A null counts as left out. The answer depends on nothing but the two values, so that a later
        reader of the record comes to the same words.
        """
        if not arguments.keys() <= self.by_name.keys():
            return "an argument that this tool does not take"
        for argument in self.arguments:
            value = arguments.get(argument.name)
            if value is None:
                if argument.default is None:
                    return f"{argument.name}: required"
            elif argument.kind == "string":
                if not isinstance(value, str):
                    return f"{argument.name}: expected a string"
            elif isinstance(value, bool) or not isinstance(value, int):
                return f"{argument.name}: expected an integer"
            elif argument.minimum is not None and value < argument.minimum:
                return f"{argument.name}: expected at least {argument.minimum}"
            elif argument.maximum is not None and value > argument.maximum:
                return f"{argument.name}: expected at most {argument.maximum}"
        return None


LINES_MAX: Final = 10_000_000
COMMITS_MAX: Final = 100

_PATH = Argument("path", "string", "Path of the file, relative to the root.", is_path=True)
_DIRECTORY = Argument(
    "directory", "string", "Path of the directory, relative to the root.", ".", is_path=True
)

READ_TOOLS: Final[Mapping[str, Tool]] = {
    tool.name: tool
    for tool in (
        Tool("read_file", "Read a text file.", (_PATH,)),
        Tool(
            "read_file_lines",
            "Read some lines of a text file, both ends included, counted from 1.",
            (
                _PATH,
                Argument("start", "integer", "First line.", minimum=1, maximum=LINES_MAX),
                Argument("end", "integer", "Last line.", minimum=1, maximum=LINES_MAX),
            ),
        ),
        Tool("list_files", "List the files below a directory.", (_DIRECTORY,)),
        Tool(
            "summarize_directory",
            "Count the files, lines and bytes below a directory, by kind.",
            (_DIRECTORY,),
        ),
        Tool(
            "git_show",
            "Read a file as it was at a commit.",
            (Argument("ref", "string", "A commit, branch or tag."), _PATH),
        ),
        Tool(
            "git_log",
            "List the newest commits.",
            (Argument("n", "integer", "How many.", 5, minimum=1, maximum=COMMITS_MAX),),
        ),
        Tool(
            "read_diff_between_refs",
            "Read the difference between two commits.",
            (
                Argument("ref1", "string", "The older commit, branch or tag."),
                Argument("ref2", "string", "The newer commit, branch or tag."),
            ),
            phases=frozenset({"post_execute"}),
        ),
    )
}


def active(declared: Iterable[str], phase: str) -> tuple[str, ...]:
    """The declared read tools that exist in `phase`, in the order declared."""
    return tuple(name for name in declared if phase in READ_TOOLS[name].phases)


def definition(name: str) -> dict[str, Any]:
    """The tool `name` as OpenAI's chat API takes it (`{"type": "function", …}`)."""
    if name == SUBMIT_VERDICT:
        meaning = "Give the verdict. This ends the evaluation."
        properties: dict[str, Any] = {
            "severity": {
                "type": "string",
                "enum": list(SEVERITIES),
                "description": "pass: sound. warn: a person should look. blocker: must not go on.",
            },
            "justification": {"type": "string", "description": "Why, with what you saw where."},
        }
        required = ["severity", "justification"]
    else:
        tool = READ_TOOLS[name]
        meaning = tool.meaning
        properties = {a.name: _property(a) for a in tool.arguments}
        required = [a.name for a in tool.arguments if a.default is None]
    return {
        "type": "function",
        "function": {
            "name": name,
            "description": meaning,
            "parameters": {
                "type": "object",
                "properties": properties,
                "required": required,
                "additionalProperties": False,
            },
        },
    }


def _property(argument: Argument) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": argument.kind, "description": argument.meaning}
    if argument.default is not None:
        schema["default"] = argument.default
    if argument.minimum is not None:
        schema["minimum"] = argument.minimum
    if argument.maximum is not None:
        schema["maximum"] = argument.maximum
    return schema


@lru_cache(maxsize=256)
def definitions_digest(names: tuple[str, ...]) -> str:
    """SHA-256, hex, over the canonical JSON list of the definitions of `names`, in that order."""
    return hashlib.sha256(encode([definition(name) for name in names])).hexdigest()
