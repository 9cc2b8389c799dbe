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
import stat
import time
from pathlib import Path

from ...domain.errors import Busy, Denied, IOFailure

_POLL_SECONDS = 0.02
_TRIES_MAX = 100
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW


class FileLock:
    """A lock that is held. `release` is idempotent. Owns the descriptors of the folder and of the file."""

    def __init__(self, path: Path, folder: int, descriptor: int) -> None:
        self._path = path
        self._folder = folder
        self._descriptor: int | None = descriptor

    def release(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is None:
            return
        # Unlinked while still locked: who opened the file before and gets the lock after finds that its
        # path is gone, or leads to another file, and begins again (`try_file_lock`). Unlinked after the
        # unlock, two holders could lock two files of one name.
        try:
            if _is_at(descriptor, self._path.name, self._folder):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(self._path.name, dir_fd=self._folder)
                with contextlib.suppress(OSError):
                    # Other locks are in it: it stays.
                    self._path.parent.rmdir()
        finally:
            os.close(descriptor)
            os.close(self._folder)


def folder_of(database: Path) -> Path:
    return database.with_name(database.name + ".locks")


def try_file_lock(database: Path, name: str) -> FileLock | None:
    """Take the lock `name` beside `database`, or answer None at once. Raises `IOFailure`, `Denied`."""
    path = folder_of(database) / f"{name}.lock"
    try:
        for _ in range(_TRIES_MAX):
            folder = _open_folder(database)
            if folder is None:
                continue
            try:
                descriptor = _try_in(folder, path.name)
            except FileNotFoundError:
                # Somebody's release took the empty folder away.
                os.close(folder)
                continue
            except BlockingIOError:
                os.close(folder)
                return None
            except BaseException:
                os.close(folder)
                raise
            if descriptor is not None:
                return FileLock(path, folder, descriptor)
            os.close(folder)
        # Taken and released by others, all the while.
        return None
    except OSError as error:
        kind = Denied if error.errno in (errno.EACCES, errno.EPERM) else IOFailure
        raise kind(f"{path}: cannot be locked: {error.strerror}") from None


def _open_folder(database: Path) -> int | None:
    """The folder of the locks, made where it is not there; None where it went away meanwhile.

    Raises `Denied` for one that somebody else could have put there: a link would make us write elsewhere, and
    whoever may write to the folder can take a lock's file away under its holder.
    """
    path = folder_of(database)
    # `Path.mkdir(exist_ok=True)` fails where the folder goes away between its two looks.
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, 0o770)
    try:
        folder = os.open(path, _FOLDER_FLAGS)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise Denied(
                f"{path}: expected a folder of causebook's own, found a link or a file",
                hint="who put it there? it can be removed while no runner is at work",
            ) from None
        raise
    try:
        status = os.fstat(folder)
        if (
            status.st_uid not in (os.geteuid(), 0, _owner(database))
            or status.st_mode & stat.S_IWOTH
        ):
            raise Denied(
                f"{path}: expected a folder that only the ledger's owner can write to, found"
                f" owner {status.st_uid}, mode {stat.S_IMODE(status.st_mode):04o}",
                hint="it can be removed while no runner is at work",
            )
    except BaseException:
        os.close(folder)
        raise
    return folder


def _owner(database: Path) -> int:
    try:
        return os.stat(database).st_uid
    except FileNotFoundError:
        return os.geteuid()


def _try_in(folder: int, name: str) -> int | None:
    """The descriptor of the locked file; None where its name was given to another file meanwhile."""
    descriptor = os.open(name, _FLAGS, 0o660, dir_fd=folder)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _is_at(descriptor, name, folder):
            return descriptor
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


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


def _is_at(descriptor: int, name: str, folder: int) -> bool:
    try:
        there = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return os.path.samestat(os.fstat(descriptor), there)
