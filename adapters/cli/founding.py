"""`causebook init`: a ledger is founded, here or by a request that goes round."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

from ...domain.checkpoint import SignedCheckpoint
from ...domain.errors import Misuse
from ...domain.events import Role
from ...domain.keyring import EnrolledKey
from ...domain.note import NOTE_BYTES_MAX, NoteError
from ..founding import (
    HERE,
    ask_founding,
    require_founding,
    require_origin,
    require_predecessor,
    sign_with,
    store_founding,
)
from ..key_files import read_public
from ..keys import ROLES, KeyFolder
from ..ledger import Ledger
from ..store.location import SQLiteLocation, display, locate
from ..store.url import found
from ..writer import utc_now
from .passphrase import new_passphrase, passphrase_from
from .pins import pin_founded, require_unknown
from .reading import at_keys, at_ledger
from .requests import read_file, read_request, require_free, say_asked, write_request
from .terminal import Column, json_page, out, short


@dataclass(frozen=True)
class Founding:
    """What a person said of the ledger to be founded; the files by their names."""

    origin: str | None
    encrypt: bool
    root_pub: str | None
    authority_pub: str | None
    request: str | None
    signed: str | None
    continues: str | None


def init(url: str, keys: str, said: Founding, passphrase_file: str | None, *, as_json: bool) -> int:
    """Found a ledger at `url`, with keys in the folder `keys`; or ask for its founding to be signed."""
    apart = (said.root_pub, said.authority_pub, said.request)
    if said.signed is not None:
        given = (*apart, said.origin, said.continues)
        if said.encrypt or any(option is not None for option in given):
            raise Misuse(
                "--signed: expected no other option about the founding beside it",
                hint="all of that stands in the request, and was signed",
            )
        return _found_signed(url, keys, said.signed, passphrase_file, as_json=as_json)
    if any(option is not None for option in apart):
        if None in apart:
            raise Misuse(
                "--root-pub, --authority-pub, --request: expected all three or none",
                hint="root and authority live elsewhere both, and sign there: causebook keys sign",
            )
        return _ask(url, keys, said, passphrase_file, as_json=as_json)
    return _found_here(url, keys, said, passphrase_file, as_json=as_json)


def _found_here(
    url: str, keys: str, said: Founding, passphrase_file: str | None, *, as_json: bool
) -> int:
    where = locate(url)
    if not (isinstance(where, SQLiteLocation) and where.path.exists()):
        require_unknown(said.origin)  # else what is there already is the first thing to say
    passphrase = new_passphrase(passphrase_file, wanted=said.encrypt)
    folder = KeyFolder(Path(keys))
    reused = all(folder.file_of(role).exists() for role in ROLES)
    continues = _continued(said.continues)
    with Ledger.found(
        url, keys=keys, origin=said.origin, passphrase=passphrase, continues=continues
    ) as ledger:
        founded = Founded.of(ledger)
    _hide(url)
    new = "encrypted" if passphrase else ""
    how = "reused, they were there before" if reused else new
    return _say_founded(url, keys, founded, how, reused=reused, as_json=as_json)


def _ask(url: str, keys: str, said: Founding, passphrase_file: str | None, *, as_json: bool) -> int:
    """Make the keys that stay here, and write what root and authority are to sign elsewhere."""
    request = said.request or ""
    require_free(request)
    origin = require_origin(said.origin)
    require_unknown(origin)
    public_keys: dict[Role, str] = {
        "root": read_public(Path(said.root_pub or "")),
        "authority": read_public(Path(said.authority_pub or "")),
    }
    _require_distinct(public_keys, 2)
    passphrase = new_passphrase(passphrase_file, wanted=said.encrypt)
    opened = passphrase_from(passphrase_file)
    folder = KeyFolder(Path(keys), opened if passphrase is None else lambda _: passphrase)
    folder.check(HERE)
    note = None
    continues = _continued(said.continues)
    if continues is not None:
        reused = folder.signer("log").public_key if folder.file_of("log").exists() else None
        note = require_predecessor(origin, continues, reused)
    folder.make(passphrase, HERE)
    signers = [folder.signer(role) for role in HERE]
    public_keys |= {role: each.public_key for role, each in zip(HERE, signers, strict=True)}
    _require_distinct(public_keys, len(ROLES))
    asked = ask_founding(origin, public_keys, utc_now, apart=True, continues=note)
    asked = sign_with(asked, signers)
    write_request(request, asked)
    if as_json:
        wants = [{"what": w.what, "role": w.role, "keyid": w.keyid} for w in asked.wants()]
        out().raw(json_page({"origin": origin, "request": request, "wants": wants}))
        return 0
    page = out()
    page.line((f"{request} asks for what cannot be signed here", "strong"))
    say_asked(page, asked)
    sign = f"causebook keys sign {shlex.quote(request)} --keys DIR"
    page.command("  first  ", f"{sign}       (the authority)")
    page.command("  second ", f"{sign}       (root)")
    founds = f"causebook init --signed {shlex.quote(request)}{at_ledger(url)}{at_keys(keys)}"
    page.command("  then   ", founds)
    return 0


def _require_distinct(public_keys: dict[Role, str], count: int) -> None:
    if len(set(public_keys.values())) != count:
        raise Misuse(
            "--root-pub, --authority-pub: expected four keys for four roles, found one of them twice",
            hint="one key, one role: causebook keys make ROLE --keys DIR makes one, where it will live",
        )


def _found_signed(
    url: str, keys: str, file: str, passphrase_file: str | None, *, as_json: bool
) -> int:
    asked = read_request(file)
    require_unknown(asked.ledger)
    folder = KeyFolder(Path(keys), passphrase_from(passphrase_file))
    require_founding(asked, folder)
    store = found(url)
    try:
        stream = store_founding(store, url, asked)
    finally:
        store.close()
    _hide(url)
    founded = Founded(stream.origin, stream.founding, tuple(stream.keyring.keys.values()))
    how = "of the engine and the log; root and authority live elsewhere"
    return _say_founded(url, keys, founded, how, reused=True, as_json=as_json)


@dataclass(frozen=True)
class Founded:
    """A ledger that was just founded."""

    origin: str
    founding: str
    keys: tuple[EnrolledKey, ...]

    @classmethod
    def of(cls, ledger: Ledger) -> Founded:
        """The ledger, and its keys in the order in which they were enrolled."""
        writer = ledger.writer
        return cls(ledger.origin, writer.founding, tuple(writer.keyring.keys.values()))


def _say_founded(
    url: str, keys: str, founded: Founded, how: str, *, reused: bool, as_json: bool
) -> int:
    pin_founded(url)
    folder = KeyFolder(Path(keys))
    if as_json:
        listed = [(key, folder.file_of(key.role)) for key in founded.keys]
        document = {
            "origin": founded.origin,
            "ledger": display(url),
            "founding": founded.founding,
            "keys": [
                {
                    "role": key.role,
                    "keyid": key.keyid,
                    "file": str(file) if file.exists() else None,
                }
                for key, file in listed
            ],
            "keys_reused": reused,
        }
        out().raw(json_page(document))
        return 0
    page = out()
    page.line((f"{founded.origin} is founded", "strong"))
    page.blank()
    page.line(f"  ledger    {display(url)}")
    page.line(f"  founding  {short(founded.founding)}")
    page.line(f"  keys      {keys}", f"{':' if reused else ','} {how}" if how else "")
    rows = [(key.role, short(key.keyid)) for key in founded.keys]
    page.table([Column(), Column()], rows, indent=12)
    page.blank()
    page.command(
        "  next      ",
        f"causebook judge TASK --protocol FILE --workspace DIR{at_ledger(url)}{at_keys(keys)}",
    )
    return 0


def _continued(file: str | None) -> bytes | None:
    if file is None:
        return None
    raw = read_file(file, "a checkpoint of the ledger that it continues", NOTE_BYTES_MAX)
    try:
        SignedCheckpoint.parse(raw)
    except NoteError as error:
        raise NoteError(
            f"{file}: {error.message}", hint="causebook checkpoint prints one"
        ) from None
    return raw


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
