"""Confinement: what lies below a directory can be opened, and nothing else.

1. A path is walked part by part from a descriptor of the root, each part opened relative to the last one
   without following links. A link is followed by walking its text; an absolute one only where it names a
   place below the root. So a part swapped for a link between its check and its opening is not followed.
2. `..` goes up as the kernel does it. Above the root it is refused, even where the path comes back in.
3. Only regular files are opened. A FIFO, socket or device is refused by its type, opening never blocks,
   and the type is checked again on the open descriptor.
4. What is called `.git` is refused, and so is git's own directory under any other name: it holds
   credentials, and history is read through the git tools. So is a file or directory that
   was named as private, also where it appears only later; to a walk it is not there at all.
5. Hard links and mounts are the operator's doing; they are what they look like.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PATH_BYTES_MAX: Final = 4_096
PARTS_MAX: Final = 128
LINKS_MAX: Final = 40
PRIVATE: Final = "private: git's own files, the ledger, its keys and what unlocks them are not read"

_OPEN_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC
# O_PATH (Linux) passes through a directory that may be searched and not listed.
_OPEN_DIRECTORY = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", 0)


class Refused(Exception):
    """A read that is not answered, and the words that say why."""


@dataclass(frozen=True)
class Found:
    """A file, link or directory met below the root, with an open descriptor of the directory it is in."""

    path: bytes
    name: bytes
    folder: int
    status: os.stat_result

    @property
    def is_link(self) -> bool:
        return stat.S_ISLNK(self.status.st_mode)


class Tree:
    """Opens what lies below a directory, and nothing else (rules 1 to 4).

    `root` has its links resolved, `given` is how it was named; `git_dirs` are git's own directories,
    `private` are files and directories that are nobody's to read.
    """

    def __init__(
        self, root: Path, given: Path, git_dirs: Iterable[Path], private: Iterable[Path] = ()
    ) -> None:
        self.root = os.fsencode(root)
        self._names = {self.root, os.fsencode(given)}
        self._private = {(s.st_dev, s.st_ino) for s in (path.stat() for path in git_dirs)}
        self._hidden = list[bytes]()
        for path in private:
            real = Path(os.path.realpath(path))
            if real.is_relative_to(root):
                self._hidden.append(os.fsencode(real.relative_to(root)))
            # A directory is known under any name. A file comes and goes, and its inode serves the next.
            with suppress(OSError):
                status = real.stat()
                if stat.S_ISDIR(status.st_mode):
                    self._private.add((status.st_dev, status.st_ino))

    def hides(self, path: bytes) -> bool:
        """Whether a path below the root is that of what was named as private, or leads into it."""
        return any(path == name or path.startswith(name + b"/") for name in self._hidden)

    def parts(self, path: str) -> list[bytes]:
        """The parts of a path that a model gave. Raises `Refused`."""
        try:
            raw = path.encode()
        except UnicodeEncodeError:
            raise Refused("not Unicode text") from None
        if b"\0" in raw:
            raise Refused("a path holds no null byte")
        if len(raw) > PATH_BYTES_MAX:
            raise Refused(f"longer than {PATH_BYTES_MAX:,} bytes")
        return self._below(raw)

    def _below(self, path: bytes) -> list[bytes]:
        if not path.startswith(b"/"):
            return path.split(b"/")
        for name in self._names:
            if path == name or path.startswith(name.rstrip(b"/") + b"/"):
                return path[len(name) :].split(b"/")
        raise Refused("outside the workspace root")

    @contextmanager
    def opened(
        self, parts: Iterable[bytes], *, follow: bool = True
    ) -> Iterator[tuple[int, os.stat_result, bytes]]:
        """An open descriptor of the file or directory at `parts`, its status and its path, links
        resolved. Raises `Refused` and `OSError`."""
        todo, names, links = list(parts)[::-1], list[bytes](), 0
        held = [os.open(self.root, _OPEN_DIRECTORY)]
        try:
            while todo:
                name = todo.pop()
                if name in (b"", b"."):
                    continue
                if name == b"..":
                    if not names:
                        raise Refused("outside the workspace root")
                    names.pop()
                    os.close(held.pop())
                    continue
                if name.lower() == b".git":
                    raise Refused("git's own files are not read; the git tools show history")
                mode = os.stat(name, dir_fd=held[-1], follow_symlinks=False).st_mode
                if stat.S_ISLNK(mode):
                    links += 1
                    if not follow or links > LINKS_MAX:
                        raise Refused("too many links")
                    target = os.readlink(name, dir_fd=held[-1])
                    todo += self._below(target)[::-1]
                    if target.startswith(b"/"):
                        names.clear()
                        while len(held) > 1:
                            os.close(held.pop())
                    continue
                names.append(name)
                if self.hides(b"/".join(names)):
                    raise Refused(PRIVATE)
                held.append(self._enter(held[-1], name, mode))
                if len(names) > PARTS_MAX:
                    raise Refused(f"deeper than {PARTS_MAX} directories")
                if not stat.S_ISDIR(mode) and any(part not in (b"", b".") for part in todo):
                    raise NotADirectoryError(20, "")
            yield held[-1], os.fstat(held[-1]), b"/".join(names)
        finally:
            for descriptor in held:
                os.close(descriptor)

    def _enter(self, folder: int, name: bytes, mode: int) -> int:
        """A descriptor of the directory or regular file `name`, seen with `mode` a moment ago."""
        if not stat.S_ISDIR(mode):
            return self.file(folder, name, mode)
        descriptor = os.open(name, _OPEN_DIRECTORY, dir_fd=folder)
        status = os.fstat(descriptor)
        if (status.st_dev, status.st_ino) in self._private:
            os.close(descriptor)
            raise Refused(PRIVATE)
        return descriptor

    @staticmethod
    def file(folder: int, name: bytes, mode: int) -> int:
        """A descriptor of the regular file `name`. Raises `Refused` for any other kind (rule 3)."""
        if stat.S_ISREG(mode):
            descriptor = os.open(name, _OPEN_FILE, dir_fd=folder)
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                return descriptor
            os.close(descriptor)
        raise Refused("not a regular file")

    def walk(self, below: bytes) -> Iterator[bytes]:
        """Paths of the files and links below a directory, in no order, entering no link.

        A directory that cannot be listed, or lies too deep, is named with a trailing `/`.
        """
        todo = [below]
        while todo:
            here = todo.pop()
            try:
                with self.opened(here.split(b"/"), follow=False) as (folder, _, _):
                    listed = os.open(
                        ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder
                    )
            except FileNotFoundError:
                continue
            except (OSError, Refused):
                if not self._is_private(here):
                    yield here + b"/"
                continue
            try:
                with os.scandir(listed) as entries:
                    for entry in entries:
                        name = os.fsencode(entry.name)
                        path = here + b"/" + name if here else name
                        if name.lower() == b".git" or self.hides(path):
                            continue
                        if entry.is_dir(follow_symlinks=False):
                            todo.append(path)
                        elif entry.is_file(follow_symlinks=False) or entry.is_symlink():
                            yield path
            finally:
                os.close(listed)

    def _is_private(self, path: bytes) -> bool:
        try:
            status = os.lstat(os.path.join(self.root, path))
        except OSError:
            return False
        return (status.st_dev, status.st_ino) in self._private

    def present(self, paths: Iterable[bytes]) -> Iterator[Found]:
        """Those of `paths` that are a file, link or directory now, no link entered on the way there."""
        paths = iter(paths)
        path = next(paths, None)
        while path is not None:
            parent = path.rpartition(b"/")[0]
            try:
                with self.opened(parent.split(b"/"), follow=False) as (folder, _, _):
                    while path is not None and path.rpartition(b"/")[0] == parent:
                        found = None if self.hides(path) else _look(folder, path)
                        if found is not None:
                            yield found
                        path = next(paths, None)
            except (FileNotFoundError, NotADirectoryError, Refused):
                while path is not None and path.rpartition(b"/")[0] == parent:
                    path = next(paths, None)


def _look(folder: int, path: bytes) -> Found | None:
    name = path.rpartition(b"/")[2]
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    usable = stat.S_IFMT(status.st_mode) in (stat.S_IFREG, stat.S_IFLNK, stat.S_IFDIR)
    return Found(path, name, folder, status) if usable else None
