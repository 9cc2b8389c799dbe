"""A ledger as of one checkpoint that its own log key signed: what proofs, bundles and mirrors are made from.

Whoever hands something out has it checked first: that the stream `ledger` holds, that a log key enrolled
there signed the checkpoint, and that what is stored leads to its root. It is not `verify`, and it says
nothing about who founded the ledger.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final, Protocol

from ...domain.checkpoint import SignedCheckpoint
from ...domain.errors import BadData
from ...domain.note import NoteError, NoteKey, signer_among
from ...domain.proof import InclusionProof
from ...domain.streams import LEDGER
from ...projections.tree import leaf_hash
from ..ledger_stream import LedgerStream, read_ledger
from ..signatures import verify
from ..store.port import Row
from .tree_reading import TreeSource, TreeView, stored_checkpoint

_HINT: Final = "causebook verify says all that is wrong"


class LedgerSource(TreeSource, Protocol):
    """A snapshot of a ledger, as far as it is read here."""

    def stream(self, name: str) -> Iterable[Row]:
        """The rows of one stream, by version."""
        ...


@dataclass(frozen=True)
class SealedLog:
    """A snapshot as of one checkpoint. `signer`: the log key that signed it; `view`: the tree below it."""

    source: LedgerSource
    ledger: LedgerStream
    signer: NoteKey
    view: TreeView

    @property
    def checkpoint(self) -> SignedCheckpoint:
        """The checkpoint, with the cosignatures kept beside it."""
        return self.view.checkpoint

    @property
    def size(self) -> int:
        """How many records it counts."""
        return self.view.size

    def rows(self) -> Iterator[Row]:
        """The rows below the checkpoint, in order."""
        return (row for _, row in islice(self.source.rows(), self.size))

    def require(self, index: int, row: Row) -> None:
        """Raise `BadData` unless the row's record is the one that the tree has at `index`.

        A row's place among the rows is its index only as long as no row before it was deleted or put in.
        """
        if self.view.leaf(index) != leaf_hash(row.record):
            raise BadData(
                f"{row.stream} v{row.version}: expected the record that the tree has at index {index}, "
                "found another",
                hint=_HINT,
            )

    def proof(self, index: int, row: Row) -> InclusionProof:
        """That the row's record stands at `index` of the log. Raises `BadData` where it does not."""
        self.require(index, row)
        return InclusionProof(index, self.view.inclusion(index), self.checkpoint)


def sealed_log(source: LedgerSource, size: int | None = None) -> SealedLog:
    """The ledger as of the checkpoint of that size, by default the newest.

    Raises `NoInput` where there is none, `BadData` where something does not hold.
    """
    ledger = read_ledger(source.stream(LEDGER))
    checkpoint = stored_checkpoint(source, size, ledger.keyring.witness_keys())
    signer = log_signer(ledger, checkpoint)
    view = TreeView(source, checkpoint)
    view.root()
    return SealedLog(source, ledger, signer, view)


def log_signer(ledger: LedgerStream, checkpoint: SignedCheckpoint) -> NoteKey:
    """The log key of this ledger that signed the checkpoint. Raises `BadData` where none did."""
    said = checkpoint.checkpoint
    where = f"checkpoint of size {said.size}"
    if said.origin != ledger.origin:
        raise BadData(f"{where}: expected one of {ledger.origin}, found one of {said.origin}")
    try:
        signer = signer_among(checkpoint.note, ledger.keyring.log_keys(said.size), verify)
    except NoteError as error:
        raise BadData(f"{where}: {error.message}", hint=_HINT) from None
    if signer is None:
        raise BadData(
            f"{where}: expected a signature by a log key that {ledger.origin} enrolled, found none",
            hint=_HINT,
        )
    return signer
