"""`causebook pins …` and `causebook witness …` as a person types them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Final

import typer

from .options import Json, PassphraseFile, help_where_alone

_NAME: Final = typer.Option(
    "--name", metavar="NAME", help="The witness's name: like w1.example.com, without a scheme."
)


def pins_root(context: typer.Context) -> int:
    """What you verified before."""
    return help_where_alone(context)


def witness_root(context: typer.Context) -> int:
    """A witness: cosign logs that only grow."""
    return help_where_alone(context)


def pins_list(json: Json = False) -> int:
    """List what you verified before, and when."""
    from .pins import list_pins as do

    return do(as_json=json)


def pins_forget(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="The ledger's name, as pins list has it.")
    ],
) -> int:
    """Forget a ledger: the next look at it is a first one."""
    from .pins import forget as do

    return do(name)


PINS: Final[Mapping[str, Callable[..., int]]] = {"list": pins_list, "forget": pins_forget}
"""The commands of the group `pins`."""


def witness_key(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Where the new key goes.")],
    name: Annotated[str, _NAME],
    encrypt: Annotated[
        bool, typer.Option("--encrypt", help="Encrypt it with a passphrase.")
    ] = False,
    passphrase_file: PassphraseFile = None,
) -> int:
    """Make a witness's key, and print what others know it by: its vkey."""
    from .witness import make_key as do

    return do(file, name, encrypt=encrypt, passphrase_file=passphrase_file)


def witness_serve(
    key: Annotated[str, typer.Option("--key", metavar="FILE", help="The witness's private key.")],
    name: Annotated[str, _NAME],
    log: Annotated[
        list[str],
        typer.Option("--log", metavar="VKEY", help="A log to cosign for; again for each more."),
    ],
    state: Annotated[
        str, typer.Option("--state", metavar="DIR", help="Where it keeps what it has cosigned.")
    ],
    listen: Annotated[
        str, typer.Option("--listen", metavar="HOST:PORT", help="Where it answers; port 0 is any.")
    ] = "127.0.0.1:7433",
    passphrase_file: PassphraseFile = None,
) -> int:
    """Answer over HTTP, and cosign the logs that only grow.

    It listens until Ctrl-C. What it has cosigned is on the disk before it answers.
    """
    from .witness import serve as do

    return do(key, name, log, state, listen, passphrase_file=passphrase_file)


WITNESS: Final[Mapping[str, Callable[..., int]]] = {"key": witness_key, "serve": witness_serve}
"""The commands of the group `witness`."""
