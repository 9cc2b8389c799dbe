"""`causebook init` and `causebook keys list`."""

from __future__ import annotations

from pathlib import Path

from ...domain.errors import BadData, NoInput
from ...domain.events import KeyEnrolled, LedgerFounded
from ...domain.keyring import EnrolledKey, Keyring
from ...domain.streams import LEDGER
from ..keys import ROLES
from ..ledger import Ledger
from ..store.location import SQLiteLocation, display, locate
from .passphrase import new_passphrase
from .reading import at_keys, at_ledger, read
from .terminal import Column, json_page, out, short


def init(
    url: str,
    keys: str,
    origin: str | None,
    encrypt: bool,
    passphrase_file: str | None,
    *,
    as_json: bool,
) -> int:
    """Found a ledger at `url`, with keys in the folder `keys`."""
    passphrase = new_passphrase(passphrase_file, wanted=encrypt)
    files = {role: Path(keys) / f"{role}.pem" for role in ROLES}
    reused = all(file.exists() for file in files.values())
    with Ledger.found(url, keys=keys, origin=origin, passphrase=passphrase) as ledger:
        name, founding = ledger.origin, ledger.writer.founding
        enrolled = list(ledger.writer.keyring.keys.values())
    _hide(url)
    if as_json:
        document = {
            "origin": name,
            "ledger": display(url),
            "founding": founding,
            "keys": [
                {"role": key.role, "keyid": key.keyid, "file": str(files[key.role])}
                for key in enrolled
            ],
            "keys_reused": reused,
        }
        out().raw(json_page(document))
        return 0
    page = out()
    page.line((f"{name} is founded", "strong"))
    page.blank()
    page.line(f"  ledger    {display(url)}")
    page.line(f"  founding  {short(founding)}")
    if reused:
        page.line(f"  keys      {keys}: reused, they were there before")
    else:
        page.line(f"  keys      {keys}", ", encrypted" if passphrase else "")
    page.table([Column(), Column()], [(key.role, short(key.keyid)) for key in enrolled], indent=12)
    page.blank()
    page.command(
        "  next      ",
        f"causebook judge TASK --protocol FILE --workspace DIR{at_ledger(url)}{at_keys(keys)}",
    )
    return 0


def _hide(url: str) -> None:
    """Keep a ledger in a folder of its own out of the git repository around it.

    A judge that reads that repository would otherwise find the ledger among the work to judge.
    """
    where = locate(url)
    if not isinstance(where, SQLiteLocation) or where.path.parent.name != ".causebook":
        return
    ignore = where.path.parent / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n", encoding="ascii")


def keys_list(url: str, *, as_json: bool) -> int:
    """Print the keys that the ledger enrolled."""
    keyring = read(url, lambda snapshot: _keyring([row.record for row in snapshot.stream(LEDGER)]))
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
            key.keyid,
        )
        for key in listed
    ]
    columns = [
        Column("role"),
        Column("name", flexible=True),
        Column("from", right=True),
        Column("until", right=True),
        Column("key id"),
    ]
    if page.width < 8 + sum(max(len(row[n]) for row in rows) for n in range(5)):
        rows = [(*row[:4], short(row[4])) for row in rows]
    page.table(columns, rows)
    page.blank()
    page.line("  from, until: the records of the stream ledger that enrolled and ended the key")
    return 0


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
    }


def _keyring(records: list[bytes]) -> Keyring:
    """The keys of a ledger. Raises `BadData` naming the record that does not hold."""
    from ...projections.facts import read_stream
    from ..signatures import verify

    entries = read_stream(LEDGER, records)
    if not entries:
        raise NoInput("the ledger holds no founding record", hint="causebook init founds a ledger")
    keyring = Keyring(entries[0].record.ledger)
    for entry in entries:
        event = entry.event
        if isinstance(event, LedgerFounded | KeyEnrolled) or event.kind() == "KeyRetired":
            fault = keyring.admit(event, entry.record.version, verify)
            if fault is not None:
                raise BadData(
                    f"{entry.place}: {fault}", hint="causebook verify says all that is wrong"
                )
    return keyring
