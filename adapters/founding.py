"""Founding a ledger: the records it begins with, asked for, signed and stored.

A founding is a signing request like any other (domain/signing_request.py). Where all keys lie in one folder
it is signed on the spot; where root and authority live elsewhere it goes round, and comes back signed.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Final

from ..domain.checkpoint import SignedCheckpoint
from ..domain.errors import CannotCreate, Denied, Misuse, VersionConflict
from ..domain.events import Event, LedgerFounded, Role, event_from
from ..domain.keyring import keyid_of, raw_key, spki_of
from ..domain.note import NoteError, NoteKey, is_signed_by
from ..domain.record import NO_PREVIOUS, Record, is_origin, parse
from ..domain.signing_request import AskedRecord, SigningRequest, asking
from ..domain.streams import LEDGER, shorten
from .keys import ROLES, KeyFolder, Signer
from .ledger_stream import LedgerStream, fold_ledger
from .signatures import verify
from .store.port import LedgerMoved, Row, Store
from .store.url import display
from .writer import Clock

HERE: Final[tuple[Role, ...]] = ("engine", "log")
"""The roles whose keys are made beside the ledger, wherever root and authority live."""


def require_origin(origin: str | None) -> str:
    """The name of a new ledger; one is made up for None. Raises `Misuse` for a text that is none."""
    name = origin if origin is not None else f"causebook.local/{secrets.token_hex(16)}"
    if not is_origin(name):
        raise Misuse(
            f"origin: expected a name without blanks, '+' or controls, found {shorten(name)}",
            hint="best under a domain you own: audit.example.com/team",
        )
    return name


def require_predecessor(origin: str, raw: bytes, log_key: str | None) -> str:
    """The note of the checkpoint that a ledger named `origin` goes on from, as its founding holds it.

    Its log key's signature is that ledger's affair, and is not looked at; cosignatures stay in the file.
    Raises `NoteError`, or `Misuse` where the origin is the same, or the log key (base64 of its
    SubjectPublicKeyInfo).
    """
    sealed = SignedCheckpoint.parse(raw)
    before = sealed.checkpoint.origin
    if before == origin:
        raise Misuse(
            f"--continues: expected a checkpoint of another origin, found one of {shorten(before)}",
            hint="a successor has a name of its own: --origin NAME",
        )
    if log_key is not None:
        try:
            same = is_signed_by(sealed.note, NoteKey(before, raw_key(log_key)), verify)
        except NoteError:
            same = True
        if same:
            raise Misuse(
                "--continues: expected another log key than that of the ledger it continues",
                hint="a successor has keys of its own: --keys DIR names a new folder",
            )
    return sealed.note.raw.decode()


def ask_founding(
    origin: str,
    public_keys: Mapping[Role, str],
    clock: Clock,
    *,
    apart: bool,
    continues: str | None = None,
) -> SigningRequest:
    """A request for the founding records. `public_keys`: of the four roles; `apart`: root lives elsewhere."""
    nonce = secrets.token_hex(32)
    root = public_keys["root"]
    signer = keyid_of(spki_of(raw_key(root)))
    founded = LedgerFounded(
        format=1,
        nonce=nonce,
        root_key=root,
        custody="apart" if apart else "together",
        continues=continues,
    )
    records = [AskedRecord.of(founded, clock(), signer)]
    records += [
        AskedRecord.enrolling(role, role, public_keys[role], clock(), signer)
        for role in ROLES
        if role != "root"
    ]
    return asking(origin, nonce, root, LEDGER, (0, NO_PREVIOUS), records)


def sign_with(request: SigningRequest, signers: Sequence[Signer]) -> SigningRequest:
    """The request with all that these keys can sign."""
    held = {signer.keyid: signer for signer in signers}
    return request.sign(lambda _, keyid: held.get(keyid or ""))[0]


def _entries(raws: Sequence[bytes]) -> list[tuple[Record, Event]]:
    records = [parse(raw) for raw in raws]
    return [(record, event_from(record.type, record.data)) for record in records]


def require_founding(request: SigningRequest, folder: KeyFolder) -> LedgerStream:
    """What a signed request founds. Raises `BadData` where it does not hold.

    Raises `Denied` where the engine's or the log's key in it is not the one in `folder`: whoever signed it
    would have founded a ledger that nobody here can write to.
    """
    if not request.is_founding:
        raise Misuse(
            "--signed: expected a request that founds a ledger, found one of a ledger that exists",
            hint="causebook keys submit FILE stores it",
        )
    stream = fold_ledger(_entries(request.signed_records()))
    for role in HERE:
        here = folder.signer(role)
        if here.keyid not in {key.keyid for key in stream.keyring.active(role)}:
            raise Denied(
                f"{folder.file_of(role)}: expected the {role} key that the request enrols, found "
                f"{here.keyid[:8]}…",
                hint="--keys DIR names the folder that init --request made the keys in",
            )
    return stream


def store_founding(store: Store, url: str, request: SigningRequest) -> LedgerStream:
    """Store a founding that is signed. Raises `BadData` where it does not hold, `CannotCreate` where another
    was stored meanwhile."""
    raws = request.signed_records()
    entries = _entries(raws)
    stream = fold_ledger(entries)
    rows = [
        Row(LEDGER, record.version, record.type, raw)
        for (record, _), raw in zip(entries, raws, strict=True)
    ]
    try:
        store.append(rows, [], ledger_version=0)
    except (LedgerMoved, VersionConflict):
        raise CannotCreate(
            f"{display(url)}: a ledger was founded here meanwhile",
            hint="use it, or name another",
        ) from None
    return stream
