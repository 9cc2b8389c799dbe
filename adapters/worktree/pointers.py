"""The small files by which git says where a repository lies, read and never believed.

Whether what they name belongs to the work tree is for `Repository` to say.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

POINTER_BYTES_MAX: Final = 8_192


def read_small(path: Path) -> bytes | None:
    """The first `POINTER_BYTES_MAX` bytes of a regular file, None where there is none. Never blocks."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except OSError:
        return None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        return os.read(descriptor, POINTER_BYTES_MAX)
    finally:
        os.close(descriptor)


def pointed(folder: Path, name: str) -> Path | None:
    """The path that the file `name` of a git directory holds; relative ones start at that directory."""
    text = read_small(folder / name)
    if not text or b"\0" in text:
        return None
    where = folder / os.fsdecode(text.rstrip(b"\n"))
    # The `gitdir` of a worktree names its `.git` file; only what leads there is resolved.
    return real(where.parent) / where.name if name == "gitdir" else real(where)


def real(path: Path) -> Path:
    """The path with its links resolved; one that leads round in a circle stays as it is."""
    # `Path.resolve` raises RuntimeError there, up to Python 3.12.
    return Path(os.path.realpath(path))


def git_dir_of(top: Path) -> Path | None:
    """The git directory that `top/.git` is or names, links resolved, or None where it is none."""
    pointer = top / ".git"
    if pointer.is_dir():
        found = real(pointer)
    else:
        text = read_small(pointer)
        if text is None or not text.startswith(b"gitdir: ") or b"\0" in text:
            return None
        found = real(top / os.fsdecode(text[len(b"gitdir: ") :].rstrip(b"\n")))
    common = pointed(found, "commondir") or found
    usable = read_small(found / "HEAD") is not None and (common / "objects").is_dir()
    return found if usable else None
