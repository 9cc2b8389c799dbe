"""The options that several commands share, and how a number typed by a person is read."""

from __future__ import annotations

from typing import Annotated, Final

import typer

Ledger = Annotated[
    str,
    typer.Option(
        "--ledger",
        envvar="CAUSEBOOK_LEDGER",
        metavar="URL",
        help="The ledger: sqlite:///FILE or postgresql://USER@HOST/DATABASE.",
    ),
]
Keys = Annotated[
    str,
    typer.Option(
        "--keys", envvar="CAUSEBOOK_KEYS", metavar="DIR", help="The folder of the private keys."
    ),
]
PassphraseFile = Annotated[
    str | None,
    typer.Option(
        "--passphrase-file",
        metavar="FILE",
        help="Read the keys' passphrase from FILE; else from CAUSEBOOK_PASSPHRASE, else it is asked for.",
    ),
]
LockTimeout = Annotated[
    str,
    typer.Option(
        "--lock-timeout",
        envvar="CAUSEBOOK_LOCK_TIMEOUT",
        metavar="SECONDS",
        help="How long a write waits for other writers, 0 to 3600.",
    ),
]
LOCK_TIMEOUT_SECONDS_MAX: Final = 3600
Json = Annotated[bool, typer.Option("--json", help="Print facts as JSON on stdout.")]
TaskId = Annotated[str, typer.Argument(metavar="TASK", help="The task's id.")]


def number(text: str | None) -> int | None:
    """The number of an attempt. Raises `Misuse` for a text that is none."""
    if text is None or (text.isascii() and text.isdecimal() and 0 < int(text[:16]) < 10**15):
        return None if text is None else int(text)
    from ...domain.errors import Misuse
    from ...domain.streams import shorten

    raise Misuse(
        f"--attempt: expected a whole number from 1, found {shorten(text)}",
        hint="attempts are counted from 1; causebook why TASK names the newest",
    )


def seconds(text: str) -> float:
    """A time to wait. Raises `Misuse` for a text that is none."""
    try:
        given = float(text)
    except ValueError:
        given = -1.0
    if 0 <= given <= LOCK_TIMEOUT_SECONDS_MAX:  # which "nan" is not
        return given
    from ...domain.errors import Misuse
    from ...domain.streams import shorten

    raise Misuse(
        f"--lock-timeout: expected 0 to {LOCK_TIMEOUT_SECONDS_MAX} seconds, found {shorten(text)}",
        hint="30 is the default; CAUSEBOOK_LOCK_TIMEOUT sets it as well",
    )


def help_where_alone(context: typer.Context) -> int:
    if context.invoked_subcommand is None:
        print(context.get_help())
    return 0
