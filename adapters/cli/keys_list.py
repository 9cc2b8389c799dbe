"""`causebook keys list`: who may sign what, since when, until when."""

from __future__ import annotations

from ...domain.keyring import EnrolledKey, Keyring
from ...domain.streams import LEDGER
from ..ledger_stream import read_ledger
from .reading import read
from .terminal import Column, Part, json_page, out, short


def keys_list(url: str, *, as_json: bool) -> int:
    """Print the keys that the ledger enrolled."""
    ledger = read(url, lambda snapshot: read_ledger(snapshot.stream(LEDGER)))
    keyring = ledger.keyring
    listed = sorted(keyring.keys.values(), key=lambda key: key.enrolled)
    if as_json:
        document = {"origin": keyring.ledger, "keys": [_document(key) for key in listed]}
        out().raw(json_page(document))
        return 0
    page = out()
    page.line((keyring.ledger, "strong"), f", {len(listed)} keys")
    page.blank()
    rows = [
        (
            key.role,
            key.name,
            f"{key.enrolled}",
            "" if key.retired is None else f"{key.retired}",
            _state(key, keyring),
            key.keyid,
        )
        for key in listed
    ]
    columns = [
        Column("role"),
        Column("name", flexible=True),
        Column("from", right=True),
        Column("until", right=True),
        Column("state"),
        Column("key id"),
    ]
    if page.table_width(columns, rows) > page.width:
        rows = [(*row[:-1], short(str(row[-1]))) for row in rows]
    page.table(columns, rows)
    page.blank()
    page.line("  from, until: the records of the stream ledger that enrolled and ended the key")
    return 0


def _state(key: EnrolledKey, keyring: Keyring) -> Part:
    if key.retired is not None:
        how = "compromised" if key.compromised else "retired"
        return f"{how}, trusted to {key.trusted_size:,}", "bad" if key.compromised else "dim"
    after = [k.keyid for k in keyring.keys.values() if k.rotates == key.keyid]
    return f"in use, rotated to {short(after[-1])}" if after else "in use"


def _document(key: EnrolledKey) -> dict[str, object]:
    return {
        "role": key.role,
        "name": key.name,
        "keyid": key.keyid,
        "public_key": key.public_key,
        "enrolled": key.enrolled,
        "retired": key.retired,
        "trusted_size": key.trusted_size,
        "compromised": key.compromised,
        "rotates": key.rotates,
    }
