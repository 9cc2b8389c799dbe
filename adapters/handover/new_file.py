"""Writing a file that was not there before: whole or not at all, and never over another."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, TypeVar

from ...domain.errors import CannotCreate
from .. import durable

T = TypeVar("T")


def refuse_existing(path: Path) -> None:
    """Raise `CannotCreate` where something has that name already, a link that leads nowhere included."""
    if os.path.lexists(path):
        raise CannotCreate(
            f"{path}: expected nothing by this name, found something",
            hint="nothing is overwritten: name another place",
        )


def write_new(path: Path, write: Callable[[BinaryIO], T]) -> T:
    """What `write` answers, its bytes durable at `path`. Raises `CannotCreate` where that cannot be.

    They are written under another name in the same folder first, and get their own once they are whole.
    """
    refuse_existing(path)
    try:
        return durable.write_new(path.absolute(), write, mode=0o666)
    except FileExistsError:
        raise CannotCreate(
            f"{path}: something was made by this name meanwhile", hint="name another place"
        ) from None
    except OSError as error:
        raise CannotCreate(
            f"{path}: cannot be written: {error.strerror}", hint="name another place"
        ) from None


def write_bytes_new(path: Path, content: bytes) -> None:
    """Write these bytes to `path`, as `write_new` does."""
    write_new(path, lambda file: file.write(content))
