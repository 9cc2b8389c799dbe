"""Checking a whole log that came as tiles (adapters/handover/tiles.py): every record of it, as `verify` does.

1.  tree         every tile is what the entries and the tiles below come to, up to the checkpoint's root, as
                 is the root in the checkpoint of every `KeyRetired`
2.  records, signatures, roles, chains, law     as `verify` checks a ledger
3.  checkpoint, founding, witnesses             as for a bundle (bundles.py)

Evidence is not part of a log, so that is never checked here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from ...domain.checkpoint import SignedCheckpoint
from ...domain.errors import BadData, CausebookError, NoInput
from ...domain.streams import LEDGER
from ..findings import TRUNCATED, CheckName, counted
from ..handover.tiles import check_upper_tiles, read_checkpoint, read_log, root_at
from ..store.port import Row
from ..verification.verify import verify
from .bundles import COMPLETE
from .given import Given
from .known import Known
from .ledgers import KnownLedger
from .records import HandedOver, row_of
from .report import Answer, FileReport
from .together import Sealed, Stated

_CHECKS: Final[tuple[CheckName, ...]] = ("records", "signatures", "roles", "chains", "law")


@dataclass
class _OfTiles(HandedOver):
    """The records of an export, read from its files each time they are asked for."""

    given: Given | None = None
    size: int = 0

    def rows(self, after: int = 0) -> Iterator[tuple[int, Row]]:
        if self.given is not None:
            for index, raw in enumerate(read_log(self.given.path, self.size)):
                if index + 1 > after:
                    yield index + 1, row_of(raw, index)

    def stream(self, name: str) -> list[Row]:
        found = [row for _, row in self.rows() if row.stream == name]
        return sorted(found, key=lambda row: row.version)

    def count(self) -> int:
        return self.size


@dataclass
class TilesCheck:
    """One folder of tiles, while it is checked."""

    given: Given
    known: Known
    report: FileReport
    sealed: list[Sealed] = field(default_factory=list)
    stated: list[Stated] = field(default_factory=list)
    checkpoints: list[SignedCheckpoint] = field(default_factory=list)

    def run(self) -> None:
        """Check it. Raises `IOFailure` where a file cannot be read."""
        answer = self.report.ask("tree")
        try:
            checkpoint = read_checkpoint(self.given.path)
            said = checkpoint.checkpoint
            self.report.title = (
                f"the log of {said.origin}, {counted(said.size, 'record')}, as tiles"
            )
            if not self.known.may_count(checkpoint):
                # Asked before the walk, which whoever wrote the folder may have made a long one.
                answer.skip("its checkpoint is signed by no key that was given")
                self.known.ask_checkpoint(self.report, checkpoint)
                return
            root = check_upper_tiles(self.given.path, said.size)
            if root != said.root:
                answer.fault("the tiles", f"root {said.root.hex()}", root.hex())
            for _ in read_log(self.given.path, said.size):
                pass
        except NoInput as error:
            answer.fault("the tiles", "every file of the log", error.message, TRUNCATED)
            return
        except BadData as error:
            answer.fault("the tiles", "files that hold", error.message)
            return
        answer.note = f"sealed to {said.size:,}"
        self._records(checkpoint)

    def _records(self, checkpoint: SignedCheckpoint) -> None:
        size = checkpoint.checkpoint.size
        source = _OfTiles(self.given.name, (), (), self.given, size)
        report = verify(source, processes=0, whole=False)
        answers = {name: Answer.of(report[name]) for name in _CHECKS}
        self.report.answers += answers.values()
        try:
            rows = [(number - 1, row) for number, row in source.rows() if row.stream == LEDGER]
            ledger = KnownLedger.of(self.given.name, size, rows)
        except CausebookError as error:
            answers["chains"].fault(LEDGER, "the stream, from its founding", error.message)
            return
        self._retirements(ledger)
        self.checkpoints += ledger.checkpoints
        signed = self.known.ask_ledger(self.report, ledger, checkpoint)
        if signed is not None:
            self.checkpoints.append(checkpoint)
        self.known.ask_witnesses(self.report, checkpoint)
        if signed is not None and not self.report.failed:
            self.report.said.append(f"{COMPLETE} size {size:,}: it is the whole log")

    def _retirements(self, ledger: KnownLedger) -> None:
        """Hold the checkpoints that retirements name against the tree."""
        sizes = {each.signed.checkpoint.size for each in ledger.retirements}
        roots = {
            size: root_at(self.given.path, ledger.size, size)
            for size in sizes
            if 0 < size <= ledger.size
        }
        tree = next(each for each in self.report.answers if each.name == "tree")
        ledger.ask_retirements(tree, roots)
