"""`causebook keys …` as a person types it: who may sign, since when, until when."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Final

import typer

from . import defaults
from .options import (
    Json,
    Keys,
    Ledger,
    LockTimeout,
    PassphraseFile,
    help_where_alone,
    seconds,
)

_Name = Annotated[
    str | None,
    typer.Option("--name", metavar="NAME", help="Whose key it is; a witness's is its key name."),
]
_PublicKey = Annotated[
    str | None,
    typer.Option(
        "--public-key",
        metavar="FILE",
        help="Enrol the key with this public half (PEM), whose private half is elsewhere.",
    ),
]
_Uri = Annotated[
    str | None,
    typer.Option(
        "--uri",
        metavar="URI",
        help="Sign through securesystemslib, such as a KMS or an HSM; with --public-key.",
    ),
]
_Encrypt = Annotated[bool, typer.Option("--encrypt", help="Encrypt the new key with a passphrase.")]
_RequestFile = Annotated[
    str | None,
    typer.Option(
        "--request",
        metavar="FILE",
        help="Store nothing: write what is to be signed elsewhere into FILE.",
    ),
]
_File = Annotated[str, typer.Argument(metavar="FILE", help="The request.")]
_Role = Annotated[
    str,
    typer.Argument(metavar="ROLE", help="engine, authority, log, witness or exporter."),
]
_Which = Annotated[
    str,
    typer.Argument(
        metavar="ROLE|KEYID",
        help="A role, for its newest key; or a key id or the first 8 digits of it.",
    ),
]


def root(context: typer.Context) -> int:
    """The keys that may sign."""
    return help_where_alone(context)


def list_(ledger: Ledger = defaults.LEDGER, json: Json = False) -> int:
    """List every key that the ledger enrolled, and when it ended."""
    from .keys_list import keys_list as do

    return do(ledger, as_json=json)


def enrol(
    role: _Role,
    name: _Name = None,
    public_key: _PublicKey = None,
    uri: _Uri = None,
    encrypt: _Encrypt = False,
    request: _RequestFile = None,
    ledger: Ledger = defaults.LEDGER,
    keys: Keys = defaults.KEYS,
    passphrase_file: PassphraseFile = None,
    lock_timeout: LockTimeout = "30",
    json: Json = False,
) -> int:
    """Enrol a key: a new one, made here, or one that lives elsewhere.

    Root signs it, and the key itself, to show that it is held.
    """
    from .keys_change import At, NewKey
    from .keys_change import enrol as do

    at = At(ledger, keys, passphrase_file, seconds(lock_timeout), request, json)
    return do(role, name, NewKey(public_key, uri, encrypt), at)


def rotate(
    which: _Which,
    name: _Name = None,
    public_key: _PublicKey = None,
    uri: _Uri = None,
    encrypt: _Encrypt = False,
    request: _RequestFile = None,
    ledger: Ledger = defaults.LEDGER,
    keys: Keys = defaults.KEYS,
    passphrase_file: PassphraseFile = None,
    lock_timeout: LockTimeout = "30",
    json: Json = False,
) -> int:
    """Enrol a new key in place of another, which hands over to it.

    The old key counts on until it is retired.
    """
    from .keys_change import At, NewKey
    from .keys_change import rotate as do

    at = At(ledger, keys, passphrase_file, seconds(lock_timeout), request, json)
    return do(which, name, NewKey(public_key, uri, encrypt), at)


def retire(
    which: _Which,
    trusted_until: Annotated[
        str,
        typer.Option(
            "--trusted-until",
            metavar="CHECKPOINT",
            help="Where trust in it ends: a sealed checkpoint, by its size or in a file.",
        ),
    ],
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="Why; it is kept for ever.")
    ],
    compromised: Annotated[
        bool, typer.Option("--compromised", help="Say that somebody else may have had it.")
    ] = False,
    request: _RequestFile = None,
    ledger: Ledger = defaults.LEDGER,
    keys: Keys = defaults.KEYS,
    passphrase_file: PassphraseFile = None,
    lock_timeout: LockTimeout = "30",
    json: Json = False,
) -> int:
    """End a key, for good.

    What it signed below the checkpoint holds. What it signed from there on is unverifiable, and it signs
    nothing more.
    """
    from .keys_change import At
    from .keys_change import retire as do

    at = At(ledger, keys, passphrase_file, seconds(lock_timeout), request, json)
    return do(which, trusted_until, reason, at, compromised=compromised)


def export(
    which: Annotated[
        str | None,
        typer.Argument(
            metavar="ROLE|KEYID",
            help="A role, for its newest key; or a key id or the first 8 digits of it; by default all.",
        ),
    ] = None,
    vkey: Annotated[
        bool,
        typer.Option(
            "--vkey", help="Print log and witness keys as C2SP verifier keys, one a line."
        ),
    ] = False,
    trust: Annotated[
        bool,
        typer.Option("--trust", help="Print the trust file: origin, founding, root key and head."),
    ] = False,
    ledger: Ledger = defaults.LEDGER,
    json: Json = False,
) -> int:
    """Print public keys, for those who check without this ledger.

    The trust file goes to an auditor by hand: verify --trust holds a ledger against it.
    """
    from .keys_export import export as do

    return do(which, ledger, vkey=vkey, trust=trust, as_json=json)


def make(
    role: Annotated[
        str,
        typer.Argument(metavar="ROLE", help="root, engine, authority, log, witness or exporter."),
    ],
    keys: Keys = defaults.KEYS,
    encrypt: _Encrypt = False,
    passphrase_file: PassphraseFile = None,
    json: Json = False,
) -> int:
    """Make a key where no ledger is, and print its public half.

    For root and an authority that live elsewhere: init and keys enrol take the public half.
    """
    from .keys_sign import make as do

    return do(role, keys, passphrase_file, encrypt=encrypt, as_json=json)


def sign(
    file: _File,
    show: Annotated[
        bool, typer.Option("--show", help="Show what would be signed, and sign nothing.")
    ] = False,
    keys: Keys = defaults.KEYS,
    passphrase_file: PassphraseFile = None,
    json: Json = False,
) -> int:
    """Show what a request asks for, and sign it with the keys here.

    No ledger is needed. The signatures are added to the file.
    """
    from .keys_sign import sign as do

    return do(file, keys, passphrase_file, show=show, as_json=json)


def submit(
    file: _File,
    ledger: Ledger = defaults.LEDGER,
    keys: Keys = defaults.KEYS,
    passphrase_file: PassphraseFile = None,
    lock_timeout: LockTimeout = "30",
    json: Json = False,
) -> int:
    """Store what a signed request asks for.

    Exits 65 where something was changed after it was signed, 75 where the ledger moved on since.
    """
    from .keys_change import At, submit_file

    at = At(ledger, keys, passphrase_file, seconds(lock_timeout), None, json)
    return submit_file(file, at)


KEYS: Final[Mapping[str, Callable[..., int]]] = {
    "list": list_,
    "enrol": enrol,
    "rotate": rotate,
    "retire": retire,
    "export": export,
    "make": make,
    "sign": sign,
    "submit": submit,
}
"""The commands of the group `keys`, in the order of the help."""
