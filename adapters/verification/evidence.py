"""Whether the evidence that a ledger's records commit to lies beside it, whole, or was erased by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from ...domain.events import Event, EvidenceErased
from ...domain.evidence import commitments_of
from ...domain.streams import evaluations_prefix, task_stream
from ..findings import DIFFERS, TAMPERED, UNLAWFUL, Check, counted
from ..reading import Source, evidence_fault

_ROWS_AT_ONCE: Final = 64
"""Rows read with one query, and so the most that are in memory at once."""

Place = tuple[str, int]
"""(stream, version) of a record."""


@dataclass
class EvidenceIndex:
    """What every record named, and what was erased; then held against the rows, one at a time.

    Memory: some 200 bytes for each item named, never its bytes.
    """

    check: Check
    _named: dict[bytes, Place] = field(default_factory=dict)
    _erased: dict[str, int] = field(default_factory=dict)
    _lingering: int = 0

    def take(self, stream: str, version: int, event: Event) -> None:
        """Note what one record commits to, or which evidence it erases."""
        for commitment in commitments_of(event):
            # The first to name it is the place reported: a panel's brief is named by each of its judges.
            self._named.setdefault(bytes.fromhex(commitment), (stream, version))

    def erase(
        self, event: EvidenceErased, place: str, heads: Mapping[str, tuple[int, str]]
    ) -> None:
        """Note what a named person erased: streams of that task, as far as they had come by then.

        What is recorded later cannot have been erased before, so a claim to it is unlawful and covers none
        of it. `heads`: stream to (version, digest) when the erasure was recorded, at `place`.
        """
        for gone in event.streams:
            own = gone.stream == task_stream(event.task)
            if not own and not gone.stream.startswith(evaluations_prefix(event.task)):
                expected = f"streams of task {event.task} alone"
                self.check.find(place, expected, gone.stream, UNLAWFUL)
                continue
            newest, _ = heads.get(gone.stream, (0, ""))
            if gone.version > newest:
                expected = f"{gone.stream} up to v{newest}, its newest record then"
                self.check.find(place, expected, f"v{gone.version}", UNLAWFUL)
            erased = min(gone.version, newest)
            self._erased[gone.stream] = max(erased, self._erased.get(gone.stream, 0))

    def finish(self, source: Source) -> None:
        """Read every evidence row that a record names once, and answer the check."""
        items, surplus = len(self._named), 0
        asked: dict[str, Place] = {}
        last, last_place = "", None
        for commitment, task in source.evidence_commitments():
            if commitment == last:
                # Whoever asks for it may be given either.
                if last_place is not None:
                    self._find(commitment, last_place, "one row", "a second", TAMPERED)
                continue
            place = self._named.pop(_key(commitment), None)
            last, last_place = commitment, place
            if place is None:
                surplus += 1
                continue
            if place[0].split("/")[1:2] != [task]:
                self._find(commitment, place, "evidence kept for its own task", f"task {task}")
            asked[commitment] = place
            if len(asked) == _ROWS_AT_ONCE:
                self._compare(source, asked)
                asked = {}
        if asked:
            self._compare(source, asked)
        gone = 0
        for key, place in self._named.items():
            if self._is_erased(place):
                gone += 1
            else:
                self._find(key.hex(), place, "its bytes, or an EvidenceErased", "neither")
        self._note(items, gone, surplus)

    def finish_named(self, source: Source) -> None:
        """Read the rows of what was named alone, and answer the check: others are not looked at."""
        named = list(self._named.items())
        gone = 0
        for first in range(0, len(named), _ROWS_AT_ONCE):
            asked = {key.hex(): place for key, place in named[first : first + _ROWS_AT_ONCE]}
            for row in source.evidence_items(list(asked)):
                place = asked.pop(row.commitment, None)
                if place is None:
                    continue
                if place[0].split("/")[1:2] != [row.task]:
                    expected = "evidence kept for its own task"
                    self._find(row.commitment, place, expected, f"task {row.task}")
                fault = evidence_fault(row)
                if fault is not None:
                    self._find(row.commitment, place, "the bytes committed to", fault, TAMPERED)
                self._lingering += self._is_erased(place)
            for commitment, place in asked.items():
                if self._is_erased(place):
                    gone += 1
                else:
                    self._find(commitment, place, "its bytes, or an EvidenceErased", "neither")
        self._note(len(named), gone, 0)

    def _compare(self, source: Source, asked: dict[str, Place]) -> None:
        for row in source.evidence_items(list(asked)):
            place = asked.pop(row.commitment, None)
            if place is None:
                continue  # the store gave one row twice
            fault = evidence_fault(row)
            if fault is not None:
                self._find(row.commitment, place, "the bytes committed to", fault, TAMPERED)
            self._lingering += self._is_erased(place)
        for commitment, place in asked.items():
            self._find(commitment, place, "the row that is listed", "none")

    def _find(
        self, commitment: str, place: Place, expected: str, found: str, code: int = DIFFERS
    ) -> None:
        where = f"{place[0]} v{place[1]} evidence {commitment}"
        self.check.find(where, expected, found, code)

    def _note(self, items: int, gone: int, surplus: int) -> None:
        note = counted(items, "item")
        if gone:
            note += f", {gone:,} erased by a named person"
        if self._lingering:
            note += f", {self._lingering:,} erased and still there"
        if surplus:
            note += f", {counted(surplus, 'row')} that no record names"
        self.check.note = note

    def _is_erased(self, place: Place) -> bool:
        return place[1] <= self._erased.get(place[0], 0)


def _key(commitment: str) -> bytes:
    """The key of a commitment as records write it; of any other text, one that no record names."""
    try:
        key = bytes.fromhex(commitment)
    except ValueError:
        return b""
    return key if key.hex() == commitment else b""
