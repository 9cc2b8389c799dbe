"""What the tests of writing share: a founded ledger, looked at through connections of one's own.

`Home` is a ledger and its keys. `Watched` is a store that tells of each append, or makes one fail.
"""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from causebook.adapters.findings import FIRST_LOOK, Report
from causebook.adapters.ledger import Ledger
from causebook.adapters.panel import Panel
from causebook.adapters.seat import Judge, Seat
from causebook.adapters.store.port import EvidenceRow, Row, Store
from causebook.adapters.store.snapshot import open_snapshot
from causebook.adapters.store.url import open_store
from causebook.adapters.verification.verify import verify
from causebook.domain.events import Event, event_from
from causebook.domain.evidence import Item, commitments_of
from causebook.domain.ports import ReadResult, Response
from causebook.domain.record import parse
from tests.adapters.forge import file_of_80_lines

CRITERIA = ("It does what was asked.",)


def judges(*ids: str, tools: Sequence[str] = ("read_file",), turns: int = 5) -> list[Judge]:
    return [Judge(id, "my-model", CRITERIA, tools, turns) for id in ids]


@dataclass(frozen=True)
class Home:
    """A ledger, by its URL, and the folder of its keys."""

    url: str
    keys: Path

    @classmethod
    def found(cls, url: str, folder: Path) -> Home:
        """Found a ledger at `url` with new keys in `folder`."""
        Ledger.found(url, keys=folder / "keys", origin="audit.example.com/team").close()
        return cls(url, folder / "keys")

    def open(self) -> Ledger:
        return Ledger.open(self.url, keys=self.keys)

    def store(self) -> contextlib.closing[Store]:
        """A connection of its own, to see what others see."""
        return contextlib.closing(open_store(self.url))

    def rows(self) -> list[Row]:
        """Every row, in commit order."""
        with self.store() as store:
            found: list[Row] = []
            after = 0
            while page := store.rows(after=after):
                found.extend(row for _, row in page)
                after = page[-1][0]
            return found

    def events(self, stream: str) -> list[Event]:
        """The events of one stream."""
        with self.store() as store:
            return events_of(store.stream(stream))

    def kinds(self, stream: str) -> list[str]:
        """The types of the events of one stream."""
        with self.store() as store:
            return [row.type for row in store.stream(stream)]

    def verify(self) -> Report:
        with open_snapshot(self.url) as snapshot:
            return verify(snapshot, processes=0)

    def require_intact(self) -> Report:
        """Verify; the report, in which nothing speaks against the ledger."""
        report = self.verify()
        assert report.codes == [FIRST_LOOK], report.findings
        return report

    def require_evidence(self, task: str) -> int:
        """Each item that the task's records name is there and holds, and no other; how many there are."""
        named: set[str] = set()
        prefixes = (f"task/{task}", f"evaluation/{task}/")
        for row in self.rows():
            if row.stream == prefixes[0] or row.stream.startswith(prefixes[1]):
                (event,) = events_of([row])
                named.update(commitments_of(event))
        with self.store() as store:
            assert store.evidence_of(task) == sorted(named)
            for commitment in named:
                found = store.evidence(commitment)
                assert found is not None
                assert found.task == task
                assert Item(commitment, found.salt, zlib.decompress(found.body)).holds()
        return len(named)


def events_of(rows: Sequence[Row]) -> list[Event]:
    return [event_from(row.type, parse(row.record).data) for row in rows]


Tool = Callable[[str, Mapping[str, Any]], ReadResult]


def hear_out(seat: Seat, responses: Sequence[Response], tool: Tool = file_of_80_lines) -> None:
    """Hear a judge whose model gives these responses, over files of 80 lines."""
    said = iter(responses)
    while (request := seat.next_request()) is not None:
        response = replace(next(said), tool_choice_sent=request.tool_choice is not None)
        for read in seat.respond(response):
            seat.answer(tool(read.tool, read.arguments))


def hear_each(panel: Panel, answers: dict[str, Sequence[Response]]) -> None:
    """Hear the judges one after the other, and decide."""
    for judge, responses in answers.items():
        hear_out(panel.open(judge), responses)
    panel.decide()


class Watched:
    """A store that calls `before` with each append's rows and evidence, and raises what that raises."""

    def __init__(
        self, store: Store, before: Callable[[Sequence[Row], Sequence[EvidenceRow]], None]
    ) -> None:
        self._store = store
        self._before = before

    def append(
        self, rows: Sequence[Row], evidence: Sequence[EvidenceRow], *, ledger_version: int
    ) -> None:
        self._before(rows, evidence)
        self._store.append(rows, evidence, ledger_version=ledger_version)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


@contextlib.contextmanager
def watched(
    ledger: Ledger, before: Callable[[Sequence[Row], Sequence[EvidenceRow]], None]
) -> Iterator[None]:
    """While inside, the ledger appends through a `Watched` store."""
    store = ledger.writer.store
    ledger.writer.store = Watched(store, before)
    try:
        yield
    finally:
        ledger.writer.store = store
