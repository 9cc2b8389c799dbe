"""The records that came in a bundle or as tiles, seen as a ledger of just those: what `verify` can read."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ...domain.errors import RecordError
from ...domain.record import parse
from ..bundle.archive import Archive
from ..bundle.manifest import Manifest, read_file
from ..store.port import CheckpointRow, EvidenceRow, Position, Row, TileRow


def row_of(raw: bytes, index: int) -> Row:
    """The row of a record, its stream and version as it says itself; of version 0 where it is no record."""
    try:
        record = parse(raw)
    except RecordError:
        return Row(f"index {index}", 0, "", raw)
    return Row(record.stream, record.version, record.type, raw)


@dataclass
class HandedOver:
    """A `Source` over (index, row) in order. Without a store there is no tree in it, and nothing derived."""

    location: str
    numbered: Sequence[tuple[int, Row]]
    anomalies: Sequence[str] = ()

    def rows(self, after: int = 0) -> Iterator[tuple[int, Row]]:
        return ((index + 1, row) for index, row in self.numbered if index + 1 > after)

    def stream(self, name: str) -> list[Row]:
        found = [row for _, row in self.numbered if row.stream == name]
        return sorted(found, key=lambda row: row.version)

    def streams(self, prefix: str = "") -> list[str]:
        return sorted({row.stream for _, row in self.numbered if row.stream.startswith(prefix)})

    def count(self) -> int:
        return len(self.numbered)

    def index_faults(self) -> Sequence[str]:
        return ()

    def evidence(self, commitment: str) -> EvidenceRow | None:
        return None

    def evidence_items(self, commitments: Sequence[str]) -> Iterator[EvidenceRow]:
        found = (self.evidence(each) for each in commitments)
        return (row for row in found if row is not None)

    def evidence_commitments(self) -> Iterator[tuple[str, str]]:
        return iter(())

    def position(self, projection: str) -> Position | None:
        return None

    def tile(self, level: int, number: int) -> TileRow | None:
        return None

    def tiles(self) -> Iterator[TileRow]:
        return iter(())

    def tree_size(self) -> int:
        return 0

    def checkpoint(self, size: int | None = None) -> CheckpointRow | None:
        return None

    def checkpoints(self) -> Sequence[CheckpointRow]:
        return ()


@dataclass
class OfBundle(HandedOver):
    """The records of a bundle, and its evidence, which is read when it is asked for."""

    archive: Archive | None = None
    manifest: Manifest | None = None

    def evidence(self, commitment: str) -> EvidenceRow | None:
        """An item as the store would keep it. Raises `BundleError` where a file is not the manifest's."""
        salt_name, body_name = f"evidence/{commitment}.salt", f"evidence/{commitment}.bytes"
        archive, manifest = self.archive, self.manifest
        if archive is None or manifest is None:
            return None
        if salt_name not in manifest.files or body_name not in manifest.files:
            return None
        salt = read_file(archive, manifest, salt_name)
        body = read_file(archive, manifest, body_name)
        return EvidenceRow(commitment, salt, manifest.task, zlib.compress(body, 0))

    def evidence_commitments(self) -> Iterator[tuple[str, str]]:
        """(commitment, task) of every item in the bundle, in order."""
        if self.manifest is None:
            return
        for name in sorted(self.manifest.files):
            if name.startswith("evidence/") and name.endswith(".salt"):
                yield name.removeprefix("evidence/").removesuffix(".salt"), self.manifest.task
