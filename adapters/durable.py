"""Files that are there whole or not at all, and still there after the power went."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, TypeVar

T = TypeVar("T")


def replace_durably(path: Path, content: bytes, *, mode: int = 0o600) -> None:
    """Put `content` at `path`, in place of what was there. On return it is on the disk, name included.

    Whoever reads meanwhile finds the old content or the new. Raises `OSError`; the old or the new is there
    then, whole: what can fail last is to put the new one's name on the disk.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
    try:
        with open(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    sync_folder(path.parent)


def write_new(path: Path, write: Callable[[BinaryIO], T], *, mode: int = 0o600) -> T:
    """What `write` answers, its bytes at `path`, where nothing was. On return they are on the disk, with
    the name.

    The file is there whole or not at all. Raises `FileExistsError` where something has the name, a link that
    leads nowhere included, and `OSError`.
    """
    part = path.with_name(f".causebook-{secrets.token_hex(8)}.part")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with open(descriptor, "wb") as file:
            answer = write(file)
            file.flush()
            os.fsync(file.fileno())
        os.link(part, path)  # which, unlike a rename, takes no other file's place
    finally:
        with suppress(FileNotFoundError):
            part.unlink()
    sync_folder(path.parent)
    return answer


def make_folder_durably(path: Path, *, mode: int = 0o700) -> None:
    """Make a folder and those above it that are missing. On return it is on the disk by its name.

    `mode`: of the folder itself. Where it is there already, whoever made it may have been cut short: its name
    is put on the disk all the same, unless the folder above is closed to us. Raises `OSError`.
    """
    path = path.absolute()
    missing = [each for each in (path, *path.parents) if not each.exists()]
    path.mkdir(mode=mode, parents=True, exist_ok=True)
    for each in reversed(missing):
        sync_folder(each.parent)
    if not missing:
        with suppress(PermissionError):
            sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Put on the disk which files a folder holds. Raises `OSError`."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
