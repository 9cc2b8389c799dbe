"""Whether records hold, one by one: asked before a root over them is signed."""

from __future__ import annotations

from collections.abc import Sequence

from ...domain.errors import BadData
from ...domain.events import STREAMS
from ...domain.keyring import EnrolledKey, signer_of
from ...domain.streams import parse_stream, shorten
from ..reading import Unreadable, read
from ..signature_checks import SignatureChecks
from ..store.port import Row
from ..writer import Writer


def require_sound(writer: Writer, rows: Sequence[Row]) -> None:
    """Raise `BadData` naming the first row that does not hold: form, place, signature.

    The signature has to be of a key that `writer` knows, enrolled for what the record's type asks. Chains,
    law and evidence are asked by `verify`, which reads more than these rows.
    """
    with SignatureChecks() as checks:
        for number, row in enumerate(rows):
            place = f"{row.stream} v{row.version}"
            try:
                kinds = STREAMS[parse_stream(row.stream).kind]
            except ValueError:
                raise _unsound(shorten(row.stream), "expected the name of a stream") from None
            try:
                record, _ = read(row)
            except Unreadable as error:
                raise _unsound(place, f"expected a record: {error}") from None
            found = (record.ledger, record.stream, record.version, record.type)
            if found != (writer.origin, *row[:3]) or record.type not in kinds:
                raise _unsound(place, "expected the record of this place")
            key = _key(writer, record.keyid)
            if key is None or key.role != signer_of(record.type):
                raise _unsound(
                    place, f"expected it signed by a key enrolled as {signer_of(record.type)}"
                )
            checks.add((number, row.stream, row.version), key.public, record.signature, record.line)
        for _, stream, version in checks.finish():
            raise _unsound(f"{stream} v{version}", "the signature does not hold")


def _key(writer: Writer, keyid: str) -> EnrolledKey | None:
    if keyid not in writer.keyring.keys:
        writer.load()  # enrolled since it was read
    return writer.keyring.keys.get(keyid)


def _unsound(place: str, why: str) -> BadData:
    return BadData(
        f"{place}: {why}; nothing is sealed over it",
        hint="causebook verify says what is wrong with the ledger",
    )
