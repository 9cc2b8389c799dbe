"""What the files below a root are now: their manifest, their state, and what a difference is made from.

No time stamp and no index is trusted: every file is read. The manifest is, for each file of the list rule
(`listing.py`), sorted by the bytes of its path:

    mode SP digest SP path NUL

    mode      `100755` a file its owner may execute, `100644` any other file, `120000` a link
    digest    SHA-256, 64 lower-case hex digits, of the content, or of the link's target
    path      its bytes, below the root, parts joined by `/`
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...domain.ports import WorkspaceState
from .comparison import Hides
from .confined import Found, Refused, Tree
from .git import Repository
from .limits import Limits
from .objects import GITLINK, SYMLINK, Entry, blob_hasher, blob_id
from .text import shown_path


@dataclass(frozen=True)
class Seen:
    """A file as the manifest has it. `blob` is None where it changed while it was read."""

    path: bytes
    mode: str
    digest: str
    blob: str | None


def state_of(
    root: Path, repository: Repository | None, survey: Iterable[Seen], hides: Hides
) -> WorkspaceState:
    """What `GitWorkspace.describe` documents, of the files that `survey` brings, none of them hidden.

    Git is asked for HEAD before the first file is looked at.
    """
    commit = repository.resolve("HEAD") if repository else None
    held = repository.tree(commit) if repository and commit else {}
    manifest, clean = hashlib.sha256(), True
    for seen in survey:
        manifest.update(f"{seen.mode} {seen.digest} ".encode() + seen.path + b"\0")
        entry = held.pop(seen.path, None)
        clean = clean and entry is not None and (entry.mode, entry.id) == (seen.mode, seen.blob)
    if repository is None:
        return WorkspaceState(str(root), None, manifest.hexdigest(), False)
    clean = clean and all(e.mode == GITLINK or hides(path) for path, e in held.items())
    dirty = not clean or (commit is not None and repository.staged(commit, hides))
    tree = manifest.hexdigest() if dirty or commit is None else None
    return WorkspaceState(str(root), commit, tree, dirty)


def survey_of(
    tree: Tree, paths: Sequence[bytes], object_format: str, limits: Limits
) -> Iterator[Seen]:
    """Every file of the list rule, hashed, in the order of `paths`. One that vanishes is left out.

    Raises `OSError`, of which `PermissionError` for a directory that cannot be listed; `Refused` before a
    file with which it would be more than `limits.hashed_bytes_max`: one with holes may be of any size.
    """
    left = limits.hashed_bytes_max
    for path in paths:
        if path.endswith(b"/"):
            raise PermissionError(13, "", path)
    for found in tree.present(paths):
        left -= found.status.st_size
        if left < 0:
            raise Refused(
                f"expected at most {limits.hashed_bytes_max:,} bytes in all files, found more with "
                f"{shown_path(found.path)}"
            )
        try:
            yield _hashed(found, object_format, limits.chunk_bytes)
        except (FileNotFoundError, Refused):
            continue
        except PermissionError as error:  # which names the last part of the path alone
            raise PermissionError(error.errno, error.strerror, found.path) from None


def contents_of(
    tree: Tree, held: Mapping[bytes, Entry], survey: Iterable[Seen], bytes_max: int
) -> Iterator[tuple[bytes, str, str | bytes]]:
    """(path, mode, blob id or content) of the files as they are; an id where HEAD holds the same."""
    modules = [path for path, entry in held.items() if entry.mode == GITLINK]
    for path in modules:
        yield path, GITLINK, held[path].id
    within = tuple(path + b"/" for path in modules)
    for seen in survey:
        entry = held.get(seen.path)
        if seen.path.startswith(within):
            continue
        if entry is not None and entry.id == seen.blob:
            yield seen.path, seen.mode, entry.id
            continue
        for found in tree.present([seen.path]):
            if not stat.S_ISDIR(found.status.st_mode):
                yield seen.path, SYMLINK if found.is_link else seen.mode, _content(found, bytes_max)


def _hashed(found: Found, object_format: str, chunk_bytes: int) -> Seen:
    """The manifest's view of a file or link. Raises `OSError`, and `Refused` for any other kind."""
    if found.is_link:
        target = os.readlink(found.name, dir_fd=found.folder)
        digest = hashlib.sha256(target).hexdigest()
        return Seen(found.path, SYMLINK, digest, blob_id(target, object_format))
    descriptor = Tree.file(found.folder, found.name, found.status.st_mode)
    try:
        status, size, digests = os.fstat(descriptor), found.status.st_size, hashlib.sha256()
        hasher, read = blob_hasher(size, object_format), 0
        # Not past its end as it was seen: what grows as fast as it is read has none.
        while read <= size and (chunk := os.read(descriptor, chunk_bytes)):
            digests.update(chunk)
            hasher.update(chunk)
            read += len(chunk)
    finally:
        os.close(descriptor)
    mode = "100755" if status.st_mode & stat.S_IXUSR else "100644"
    blob = hasher.hexdigest() if read == size else None
    return Seen(found.path, mode, digests.hexdigest(), blob)


def _content(found: Found, bytes_max: int) -> bytes:
    """A link's target, or a file's content where it is not too large to be compared."""
    if found.is_link:
        return os.readlink(found.name, dir_fd=found.folder)
    descriptor = Tree.file(found.folder, found.name, found.status.st_mode)
    with open(descriptor, "rb") as file:
        content = file.read(bytes_max + 1)
    if len(content) > bytes_max:
        return f"[too large to compare: {found.status.st_size:,} bytes]\n".encode()
    return content
