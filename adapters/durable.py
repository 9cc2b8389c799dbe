"""Files that are there whole or not at all, and still there after the power went."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path


def replace_durably(path: Path, content: bytes, *, mode: int = 0o600) -> None:
    """Put `content` at `path`, in place of what was there. On return it is on the disk, name included.

    Whoever reads meanwhile finds the old content or the new. Raises `OSError`; the old is then still there.
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


def sync_folder(path: Path) -> None:
    """Put on the disk which files a folder holds. Raises `OSError`."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
