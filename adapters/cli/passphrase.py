"""Where a key's passphrase comes from: a file, the environment, or a person; never an argument."""

from __future__ import annotations

import os
from pathlib import Path

from ...domain.errors import BadData, Denied, IOFailure, Misuse, NoInput
from ..keys import Passphrase, no_passphrase
from .terminal import may_ask, safe

_VARIABLE = "CAUSEBOOK_PASSPHRASE"
_BYTES_MAX = 4096


def passphrase_from(file: str | None, *, once: bool = False) -> Passphrase:
    """What a key folder asks for the passphrase of an encrypted key; a person is asked once for each file.

    `once`: for the first file alone; what was said is then tried on the others.
    """
    asked: dict[Path, bytes] = {}

    def answer(path: Path) -> bytes:
        given = _given(file)
        if given is not None:
            return given
        if once and asked:
            return next(iter(asked.values()))
        if path not in asked:
            asked[path] = _asked(f"Passphrase of {path}: ") if may_ask() else no_passphrase(path)
        return asked[path]

    return answer


def new_passphrase(file: str | None, *, wanted: bool) -> bytes | None:
    """The passphrase for keys to be made, or None for keys in the clear.

    A passphrase that is given is used; one that is `wanted` and not given is asked for, twice. Raises
    `Misuse` where there is nobody to ask.
    """
    given = _given(file)
    if given is not None or not wanted:
        return given
    if not may_ask():
        raise Misuse(
            "--encrypt: expected a passphrase, found none and no terminal to ask on",
            hint=f"--passphrase-file FILE, or {_VARIABLE}",
        )
    first = _asked("Passphrase for the new keys: ")
    if first != _asked("The same again: "):
        raise Misuse("--encrypt: the two passphrases differ", hint="nothing was made; try again")
    return first


def _given(file: str | None) -> bytes | None:
    if file is not None:
        return _read(file)
    said = os.environ.get(_VARIABLE)
    return None if not said else os.fsencode(said)


def _read(file: str) -> bytes:
    try:
        with open(file, "rb") as stream:
            content = stream.read(_BYTES_MAX + 1)
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError, ValueError):
        raise NoInput(
            f"{file}: expected a file with the passphrase, found none",
            hint="--passphrase-file FILE",
        ) from None
    except PermissionError:
        raise Denied(f"{file}: not readable by this user", hint="--passphrase-file FILE") from None
    except OSError as error:
        raise IOFailure(f"{file}: {error.strerror}", hint="--passphrase-file FILE") from None
    phrase = content.removesuffix(b"\n").removesuffix(b"\r")
    if not phrase or len(content) > _BYTES_MAX:
        raise BadData(
            f"{file}: expected a passphrase of 1 to {_BYTES_MAX} bytes, found "
            f"{'none' if not phrase else 'more'}",
            hint="the file holds the passphrase and nothing else; a last line end is left out",
        )
    return phrase


def _asked(question: str) -> bytes:
    import getpass

    phrase = os.fsencode(getpass.getpass(safe(question)))
    if not phrase:
        raise Misuse("the passphrase is empty", hint="nothing was done; try again")
    return phrase
