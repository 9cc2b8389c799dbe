"""`causebook keys sign` and `causebook keys make`: what is done where a key lives, with no ledger at hand."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import cast, get_args

from ...domain.errors import CannotCreate, Denied, Misuse
from ...domain.events import Role
from ...domain.signing_request import named
from ...domain.streams import shorten
from ..key_files import public_pem
from ..key_life import sign_here
from ..keys import KeyFolder
from ..signatures import verify
from .passphrase import new_passphrase, passphrase_from
from .requests import read_request, replace_request, say_asked
from .terminal import err, json_page, out, short


def sign(file: str, keys: str, passphrase_file: str | None, *, show: bool, as_json: bool) -> int:
    """Show what a request asks for, and add the signatures that the keys in `keys` can give."""
    asked = read_request(file)
    asked.require_possession(verify)
    page = out()
    if not as_json:
        page.line((f"{file} asks for signatures", "strong"))
        say_asked(page, asked)
        page.flush()
    if show:
        if as_json:
            out().raw(json_page(asked.model_dump()))
        return 0
    signed, given = sign_here(asked, KeyFolder(Path(keys), passphrase_from(passphrase_file)))
    wanted = signed.wants()
    if given:
        replace_request(file, signed)
    elif wanted:
        raise Denied(
            f"{keys}: none of the keys here can sign now; wanted next: {wanted[0].what} by "
            f"{named(wanted[0])}",
            hint="a record is signed once the keys that it enrols have signed; --keys DIR",
        )
    if as_json:
        document = [
            [{"what": w.what, "role": w.role, "keyid": w.keyid} for w in each]
            for each in (given, wanted)
        ]
        out().raw(json_page({"given": document[0], "wants": document[1]}))
        return 0
    for want in given:
        page.line(f"  signed  {asked.records[want.record].type}: {want.what} by {named(want)}")
    for want in wanted:
        page.line(f"  wanted  {signed.records[want.record].type}: {want.what} by {named(want)}")
    if wanted:
        page.command("  next    ", f"causebook keys sign {shlex.quote(file)} --keys DIR")
    elif signed.is_founding:
        page.command("  next    ", f"causebook init --signed {shlex.quote(file)}")
    else:
        page.command("  next    ", f"causebook keys submit {shlex.quote(file)}")
    return 0


def make(
    role_name: str, keys: str, passphrase_file: str | None, *, encrypt: bool, as_json: bool
) -> int:
    """Make a key of a role, and print its public half."""
    if role_name not in get_args(Role):
        raise Misuse(
            f"role: expected one of {', '.join(get_args(Role))}, found {shorten(role_name)}",
            hint="one key has one role",
        )
    role, folder = cast(Role, role_name), KeyFolder(Path(keys))
    if folder.file_of(role).exists():
        raise CannotCreate(
            f"{folder.file_of(role)}: a {role} key is here already",
            hint="causebook keys enrol and rotate make others beside it; no key is ever replaced",
        )
    signer, path = folder.add(role, new_passphrase(passphrase_file, wanted=encrypt), beside=False)
    if as_json:
        document = {"role": role, "keyid": signer.keyid, "public_key": signer.public_key}
        out().raw(json_page(document | {"file": str(path)}))
        return 0
    err().line(f"{role} {short(signer.keyid)} is made: {path}")
    out().bytes(public_pem(signer.public_key))
    return 0
