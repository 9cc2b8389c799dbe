"""Runner locks beside a SQLite file: `<file>.locks/<name>.lock`, held with flock(2).

flock belongs to the open file, so two handles exclude one another within a process as well, and the kernel
drops it when the process dies, however it dies. A child made by fork without exec shares the open file: the
lock then lives as long as the longer-lived of the two, unless it is released.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import time
from pathlib import Path

from ...domain.errors import Busy, Denied, IOFailure

_POLL_SECONDS = 0.02
_TRIES_MAX = 100
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW


class FileLock:
    """A lock that is held. `release` is idempotent."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path = path
        self._descriptor: int | None = descriptor

    def release(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is None:
            return
        # Unlinked while still locked: who opened the file before and gets the lock after finds that its
        # path is gone, or leads to another file, and begins again (`try_file_lock`). Unlinked after the
        # unlock, two holders could lock two files of one name.
        try:
            if _is_at(descriptor, self._path):
                with contextlib.suppress(FileNotFoundError):
                    self._path.unlink()
                with contextlib.suppress(OSError):
                    # Other locks are in it: it stays.
                    self._path.parent.rmdir()
        finally:
            os.close(descriptor)


def folder_of(database: Path) -> Path:
    return database.with_name(database.name + ".locks")


def try_file_lock(database: Path, name: str) -> FileLock | None:
    """Take the lock `name` beside `database`, or answer None at once. Raises `IOFailure`, `Denied`."""
    folder = folder_of(database)
    path = folder / f"{name}.lock"
    try:
        for _ in range(_TRIES_MAX):
            # `Path.mkdir(exist_ok=True)` fails where the folder goes away between its two looks.
            with contextlib.suppress(FileExistsError):
                os.mkdir(folder)
            try:
                descriptor = os.open(path, _FLAGS, 0o666)
            except FileNotFoundError:
                # Somebody's release took the empty folder away.
                continue
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if _is_at(descriptor, path):
                    return FileLock(path, descriptor)
            except BlockingIOError:
                os.close(descriptor)
                return None
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)
        # Taken and released by others, all the while.
        return None
    except OSError as error:
        kind = Denied if error.errno in (errno.EACCES, errno.EPERM) else IOFailure
        raise kind(f"{path}: cannot be locked: {error.strerror}") from None


def wait_file_lock(database: Path, name: str, timeout_seconds: float) -> FileLock:
    """As `try_file_lock`, trying until the time is up. Raises `Busy`."""
    deadline = time.monotonic() + timeout_seconds
    while True:
        lock = try_file_lock(database, name)
        if lock is not None:
            return lock
        if time.monotonic() >= deadline:
            raise Busy(f"{folder_of(database) / name}.lock: held for over {timeout_seconds:g} s")
        time.sleep(_POLL_SECONDS)


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        there = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return os.path.samestat(os.fstat(descriptor), there)
