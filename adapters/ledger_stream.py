"""The stream `ledger`, read and held to: where a ledger begins, and whose signature counts in it.

Whoever writes builds on nothing that does not hold, and whoever hands out keys hands out none that root did
not enrol: both read the stream here. `verify` has a pass of its own, which goes on past the first fault.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from ..domain.errors import BadData, NoInput
from ..domain.events import STREAMS, Event, LedgerFounded, event_from
from ..domain.keyring import Keyring
from ..domain.record import Record, parse
from ..domain.streams import LEDGER, parse_stream
from .signatures import verify
from .store.port import Row

Tip = tuple[int, str]
"""(version, digest) of the last record of a stream."""

NOTHING: Final[Tip] = (0, "")
"""The tip of a stream that has no record."""


@dataclass(frozen=True)
class LedgerStream:
    """What the whole stream says. `founding`: the digest of `LedgerFounded`; `root_key` is in it."""

    origin: str
    founding: str
    root_key: str
    keyring: Keyring
    tip: Tip


def chained(stream: str, rows: Iterable[Row]) -> list[tuple[Record, Event]]:
    """The records of one stream, parsed, in their places, with each link of its chain checked.

    Raises `BadData` naming the first that does not hold.
    """
    kinds = STREAMS[parse_stream(stream).kind]
    entries: list[tuple[Record, Event]] = []
    previous: str | None = None
    for version, row in enumerate(rows, 1):
        place = f"{stream} v{row.version}"
        try:
            record = parse(row.record)
            event = event_from(record.type, record.data)
        except ValueError as error:
            raise unreadable(place, f"not a record: {error}") from None
        except BadData as error:
            raise unreadable(place, error.message) from None
        if (record.stream, record.version, row.version) != (stream, version, version):
            raise unreadable(place, f"expected version {version} of this stream")
        if previous is not None and record.previous != previous:
            raise unreadable(place, f"previous: expected {previous}, found {record.previous}")
        if record.type not in kinds:
            raise unreadable(place, f"{record.type} has no place in this stream")
        entries.append((record, event))
        previous = record.digest
    return entries


def read_ledger(rows: Iterable[Row]) -> LedgerStream:
    """What the rows of the stream `ledger` say. Raises `NoInput` where there are none, `BadData`."""
    entries = chained(LEDGER, rows)
    if not entries:
        raise NoInput(
            "the ledger holds no founding record",
            hint="causebook init founds a ledger; an init that was cut short can be run again",
        )
    return fold_ledger(entries)


def fold_ledger(entries: Sequence[tuple[Record, Event]]) -> LedgerStream:
    """What a chain of records of the stream `ledger` says, each signed by whom it has to be.

    Raises `BadData` naming the first that is not, or that enrols or ends what it cannot.
    """
    founded, first = entries[0]
    keyring = Keyring(founded.ledger)
    for record, event in entries:
        place = f"{LEDGER} v{record.version}"
        if record.ledger != founded.ledger:
            raise unreadable(place, f"not of {founded.ledger}")
        founding = isinstance(event, LedgerFounded)
        # The root key is known from the founding itself; every other signer from before.
        fault = None if founding else keyring.may_sign(record.keyid, record.type)
        fault = fault or keyring.admit(event, record.version, verify)
        key = keyring.keys.get(record.keyid)
        if fault is None and (
            key is None or not verify(key.public, record.signature, record.signed_bytes())
        ):
            fault = "the signature does not hold"
        if fault is not None:
            raise unreadable(place, fault)
    root_key = first.root_key if isinstance(first, LedgerFounded) else ""
    last = entries[-1][0]
    return LedgerStream(
        founded.ledger, founded.digest, root_key, keyring, (last.version, last.digest)
    )


def unreadable(place: str, why: str) -> BadData:
    """The error of a record that nothing is built on."""
    return BadData(f"{place}: {why}", hint="causebook verify says what is wrong with the ledger")
