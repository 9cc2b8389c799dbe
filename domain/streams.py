"""Names of streams: which there are, how they are written, and how they are taken apart.

    ledger
    task/<task>
    evaluation/<task>/<attempt>/<phase>/<judge>

Ids hold no slash, so a name has one reading. An attempt is written in decimal without leading zeros.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from .errors import Misuse

LEDGER: Final = "ledger"
ID_PATTERN: Final = r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}"
_ID = re.compile(ID_PATTERN)
_STREAM = re.compile(
    rf"ledger|task/(?P<task>{ID_PATTERN})"
    rf"|evaluation/(?P<etask>{ID_PATTERN})/(?P<attempt>[1-9][0-9]{{0,14}})"
    rf"/(?P<phase>pre_execute|post_execute)/(?P<judge>{ID_PATTERN})"
)


@dataclass(frozen=True)
class StreamName:
    """A stream's name, taken apart. `kind` is `ledger`, `task` or `evaluation`."""

    kind: str
    task: str | None = None
    attempt: int | None = None
    phase: str | None = None
    judge: str | None = None


def parse_stream(name: str) -> StreamName:
    """Take a stream's name apart. Raises `ValueError` where it is none."""
    match = _STREAM.fullmatch(name)
    if match is None:
        raise ValueError("not the name of a stream")
    if match["task"] is not None:
        return StreamName("task", match["task"])
    if match["etask"] is not None:
        attempt = int(match["attempt"])
        return StreamName("evaluation", match["etask"], attempt, match["phase"], match["judge"])
    return StreamName("ledger")


def task_stream(task: str) -> str:
    """The stream of a task."""
    return f"task/{task}"


def evaluation_stream(task: str, attempt: int, phase: str, judge: str) -> str:
    """The stream of one judge's evaluation."""
    return f"evaluation/{task}/{attempt}/{phase}/{judge}"


def evaluations_prefix(task: str) -> str:
    """What the names of all evaluations of a task begin with."""
    return f"evaluation/{task}/"


def require_id(text: str, what: str) -> str:
    """`text`, if it is an id. Raises `Misuse` naming `what` it was to be the id of."""
    if _ID.fullmatch(text) is None:
        raise Misuse(
            f"{what} id: expected 1 to 128 of A-Z a-z 0-9 . _ - beginning with a letter or a digit, "
            f"found {shorten(text)}",
            hint="an id becomes part of a stream's name; T-104 or fix.login_2 would do",
        )
    return text


def shorten(text: str, characters_max: int = 60) -> str:
    """`text` quoted for a message, escaped and cut, so that hostile text stays on one line."""
    quoted = ascii(text)
    return (
        quoted
        if len(quoted) <= characters_max
        else f"{quoted[:characters_max]}…' ({len(text)} characters)"
    )
