"""`causebook keys export`: public keys and the trust file, for whoever checks the ledger without it."""

from __future__ import annotations

from ...domain.errors import Misuse
from ...domain.keyring import EnrolledKey
from ...domain.note import COSIGNATURE, NoteKey
from ...domain.streams import LEDGER
from ...domain.trust import Trust
from ..key_files import public_pem
from ..key_life import key_named
from ..ledger_stream import LedgerStream, read_ledger, unreadable
from ..reading import Source
from .reading import read
from .terminal import json_page, out


def export(which: str | None, url: str, *, vkey: bool, trust: bool, as_json: bool) -> int:
    """Print one key or all, as PEM or as vkeys; or the trust file."""
    if trust and (which is not None or vkey):
        raise Misuse(
            "--trust: expected no key and no --vkey beside it",
            hint="the trust file names root, the founding and the head of the stream ledger",
        )
    if trust:
        out().bytes(read(url, trust_of).raw)
        return 0
    ledger = read(url, lambda snapshot: read_ledger(snapshot.stream(LEDGER)))
    keys = sorted(ledger.keyring.keys.values(), key=lambda key: key.enrolled)
    if which is not None:
        keys = [key_named(ledger.keyring, which)]
    elif vkey:
        keys = [key for key in keys if key.role in ("log", "witness") and key.retired is None]
    if as_json:
        out().raw(json_page([_document(ledger, key) for key in keys]))
        return 0
    page = out()
    for key in keys:
        if vkey and page.is_terminal:
            page.line(_vkey(ledger, key))  # a witness's name is somebody else's text
        elif vkey:
            page.bytes(_vkey(ledger, key).encode() + b"\n")
        elif which is not None:
            page.bytes(public_pem(key.public_key))
        else:
            # Text before the armour is passed over by whoever reads PEM.
            page.bytes(f"{key.role} {key.keyid}\n".encode() + public_pem(key.public_key))
    return 0


def trust_of(source: Source) -> Trust:
    """What an auditor keeps of a ledger. Raises what `read_ledger` raises.

    The last record of the stream `ledger` is looked for from the beginning of the log on.
    """
    ledger = read_ledger(source.stream(LEDGER))
    version, digest = ledger.tip
    for index, (_, row) in enumerate(source.rows()):
        if (row.stream, row.version) == (LEDGER, version):
            return Trust(ledger.origin, ledger.founding, ledger.root_key, version, digest, index)
    raise unreadable(f"{LEDGER} v{version}", "by name it is there, and row by row it is not")


def _vkey(ledger: LedgerStream, key: EnrolledKey) -> str:
    if key.role == "log":
        return NoteKey(ledger.origin, key.public).vkey
    if key.role == "witness":
        return NoteKey(key.name, key.public, COSIGNATURE).vkey
    raise Misuse(
        f"--vkey: expected a log or witness key, found one for {key.role}",
        hint="other keys sign no notes; without --vkey they are printed as PEM",
    )


def _document(ledger: LedgerStream, key: EnrolledKey) -> dict[str, object]:
    return {
        "role": key.role,
        "name": key.name,
        "keyid": key.keyid,
        "public_key": key.public_key,
        "vkey": _vkey(ledger, key) if key.role in ("log", "witness") else None,
        "retired": key.retired is not None,
    }
