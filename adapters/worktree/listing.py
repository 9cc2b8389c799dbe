"""Which files there are below a root, and how they are listed and summed up.

The list rule. In git: what is tracked, or neither tracked nor ignored, and is there; a submodule or a nested
repository counts with all that is in it. Outside of git: everything. Never `.git`.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ...domain.ports import ReadResult
from .confined import PARTS_MAX, Found, Refused, Tree
from .git import Repository
from .limits import Limits
from .lines import count_lines
from .text import noted, shown, shown_path


def files_below(
    tree: Tree, repository: Repository | None, below: bytes, found_files_max: int
) -> list[bytes]:
    """The list rule: sorted paths of files and links at or below a directory.

    A directory that cannot be listed ends in `/`. Raises `Refused`, `GitFailure` and `OSError`.
    """
    prefix = below + b"/" if below else b""
    found: set[bytes] = set()
    for path in _candidates(tree, repository, below):
        if path.startswith(prefix):
            found.add(path)
        if len(found) > found_files_max:
            raise Refused(f"holds more than {found_files_max:,} files")
    return sorted(found)


def _candidates(tree: Tree, repository: Repository | None, below: bytes) -> Iterator[bytes]:
    if repository is None:
        yield from tree.walk(below)
        return
    # What lies too deep to be entered stands as the directory that cannot be, which `walk` marks.
    reached = {b"/".join(path.split(b"/")[: PARTS_MAX + 1]) for path in repository.files()}
    for found in tree.present(sorted(reached)):
        if not stat.S_ISDIR(found.status.st_mode):
            yield found.path
        elif _overlap(found.path, below):
            yield from tree.walk(found.path)


def list_of(paths: Sequence[bytes], limits: Limits) -> ReadResult:
    """The files of the list rule, a line each."""
    names, left = list[str](), limits.read_bytes_max
    for path in paths[: limits.listed_files_max]:
        name = shown_path(path) + (" [cannot be listed]" if path.endswith(b"/") else "")
        left -= len(name.encode()) + 1
        if left < 0:
            break
        names.append(name)
    if not paths:
        return ReadResult("[no files]")
    if len(names) == len(paths):
        return ReadResult("\n".join(names) + "\n")
    missing = f"{len(paths) - len(names):,} of {len(paths):,} files"
    note = f"[cut: {missing} left out; list a directory further down]"
    return ReadResult(noted("\n".join(names), note), cut=True)


def summary_of(tree: Tree, paths: Sequence[bytes], limits: Limits) -> ReadResult:
    """How many files, lines and bytes there are of each kind, and of how many directories it is not known."""
    kinds: dict[str, _Sum] = {}
    left = limits.summary_bytes_max
    unlisted = sum(path.endswith(b"/") for path in paths)
    for found in tree.present(paths):
        total = kinds.setdefault(_kind(found), _Sum())
        total.files += 1
        total.bytes += found.status.st_size
        if found.is_link:
            continue
        if found.status.st_size > left:
            total.uncounted += 1
            continue
        left -= found.status.st_size
        try:
            total.lines += count_lines(found, limits.chunk_bytes)
        except (OSError, Refused):
            total.uncounted += 1
    return _table(kinds, limits.summary_kinds_max, unlisted)


@dataclass
class _Sum:
    files: int = 0
    lines: int = 0
    bytes: int = 0
    uncounted: int = 0

    def add(self, other: _Sum) -> None:
        self.files += other.files
        self.lines += other.lines
        self.bytes += other.bytes
        self.uncounted += other.uncounted

    def __str__(self) -> str:
        counted = f"{self.files:,} files, {self.lines:,} lines, {self.bytes:,} bytes"
        return counted + (f" ({self.uncounted:,} files without lines)" if self.uncounted else "")


def _table(kinds: Mapping[str, _Sum], kinds_max: int, unlisted: int) -> ReadResult:
    total, rest, rows = _Sum(), _Sum(), list[str]()
    for kind, one in sorted(kinds.items(), key=lambda item: (-item[1].files, item[0])):
        total.add(one)
        if len(rows) < kinds_max:
            rows.append(f"{kind}: {one}")
        else:
            rest.add(one)
    cut = rest.files > 0
    if cut:
        rows.append(f"[cut: {len(kinds) - len(rows):,} more kinds: {rest}]")
    if total.uncounted:
        rows.append("[lines are not counted where a file is unreadable or the directory too large]")
    if unlisted:
        rows.append(f"[not counted: what is in {unlisted:,} directories that cannot be listed]")
    return ReadResult("\n".join([f"all: {total}", *rows]) + "\n", cut=cut)


def _overlap(one: bytes, other: bytes) -> bool:
    """Whether one of two directories lies in the other, or they are the same; empty is the root."""
    one, other = one + b"/" if one else b"", other + b"/" if other else b""
    return one.startswith(other) or other.startswith(one)


def _kind(found: Found) -> str:
    if found.is_link:
        return "(links)"
    return shown(os.fsdecode(os.path.splitext(found.name)[1])) or "(no extension)"
