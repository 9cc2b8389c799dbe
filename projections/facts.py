"""What projections read: the records of one task, parsed, each with its event.

A projection is a pure function of a task's own streams (`TaskFacts`), so a row says the same whether it was
written as the records came in, rebuilt years later, or folded by a reader who never writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from pydantic import ValidationError

from ..domain.errors import BadData, RecordError
from ..domain.events import STREAMS, Event, event_from
from ..domain.record import Record, parse
from ..domain.streams import parse_stream, shorten

E_co = TypeVar("E_co", bound=Event, covariant=True)


@dataclass(frozen=True, slots=True)
class Entry(Generic[E_co]):
    """One record and the event it holds."""

    record: Record
    event: E_co

    @property
    def place(self) -> str:
        """Where it stands, for a message: `task/T-104 v4 PanelDecided`."""
        return f"{self.record.stream} v{self.record.version} {self.record.type}"


@dataclass(frozen=True)
class TaskFacts:
    """All that is recorded of one task.

    `own`: the stream `task/<task>`, in order; empty where only evaluations are there. `evaluations`: the
    streams `evaluation/<task>/…` that hold a record, by name, sorted.
    """

    task: str
    own: tuple[Entry[Event], ...]
    evaluations: Mapping[str, tuple[Entry[Event], ...]]


class Projection(Protocol):
    """A view of each task. `rows` is pure: the same facts give the same bytes.

    `name` is what a store keeps the rows under. `version` rises whenever the same facts would give other
    bytes; a view of another version is rebuilt.
    """

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> int: ...

    def rows(self, facts: TaskFacts) -> Mapping[str, bytes]:
        """Key to canonical JSON. Every key belongs to this task alone, and never goes away again."""
        ...


def read_stream(stream: str, raws: Iterable[bytes]) -> tuple[Entry[Event], ...]:
    """The entries of a stream, given all its records from the first.

    Form alone is looked at: that they are records of this stream, one after the other, of types that stand
    there. Signatures, links and law are for whoever verifies. Raises `BadData` naming stream and version.
    """
    try:
        types = STREAMS[parse_stream(stream).kind]
    except ValueError:
        raise BadData(f"{shorten(stream)}: expected the name of a stream") from None
    return tuple(_entry(stream, number, raw, types) for number, raw in enumerate(raws, 1))


def _entry(stream: str, version: int, raw: bytes, types: frozenset[str]) -> Entry[Event]:
    try:
        record = parse(raw)
    except RecordError as error:
        raise _bad(stream, version, error.message) from None
    if (record.stream, record.version) != (stream, version):
        found = f"{shorten(record.stream, 300)} v{record.version}"
        raise _bad(stream, version, f"expected its own record, found that of {found}")
    if record.type not in types:
        raise _bad(stream, version, f"{shorten(record.type)} does not stand on such a stream")
    try:
        return Entry(record, event_from(record.type, record.data))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise _bad(stream, version, f"{record.type}.{where}: {first['msg']}") from None


def _bad(stream: str, version: int, why: str) -> BadData:
    return BadData(f"{stream} v{version}: {why}", hint="causebook verify says all that is wrong")
