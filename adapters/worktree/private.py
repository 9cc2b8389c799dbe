"""The private git directory: what stands between git and the repository that it is asked about.

Every question is put to a directory made for that question and removed after it:

    HEAD                  a copy
    config                ours, a few fixed lines; only the object format and the ref storage are taken over
    refs packed-refs reftable shallow logs index sharedindex.* info/exclude     links to the real ones
    objects/              empty; objects/info/alternates names the next two
    made/                 ours: what git writes lands here, and is dropped
    odb                   a link to the real objects

What git is led to in this way lies in the repository, or no question is put (`borrowed`). Below `refs` and
`logs` links are not looked for: git takes nothing but names and ids from what they hold.
"""

from __future__ import annotations

import os
import re
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from .objects import EMPTY_TREE
from .pointers import read_small
from .process import GitFailure
from .text import shown_path

OBJECT_FILES_MAX: Final = 1_000_000

_HEAD = re.compile(rb"(?:ref: refs/[^\0\n]{1,4096}|[0-9a-f]{40}(?:[0-9a-f]{24})?)\n?")
_CONFIG = """\
[core]
	repositoryformatversion = 1
	bare = true
	fsmonitor = false
	untrackedCache = false
	hooksPath = /dev/null
	attributesFile = /dev/null
	excludesFile = /dev/null
	quotePath = false
	protectNTFS = false
	protectHFS = false
	bigFileThreshold = 16m
	commitGraph = false
	multiPackIndex = false
[extensions]
	objectFormat = {object_format}
{more}[attr]
	tree = {empty_tree}
[protocol]
	allow = never
[gc]
	auto = 0
"""
_ENVIRONMENT = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_PAGER": "cat",
    "LC_ALL": "C.UTF-8",
}
# Nothing else of ours is handed down: an API key has no business in a process that reads hostile data.
_INHERITED = ("PATH", "LD_LIBRARY_PATH")


def environment(extra: Mapping[str, str]) -> dict[str, str]:
    """All that a git process is told by its environment: what is ours, and `extra`."""
    inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    return inherited | _ENVIRONMENT | dict(extra)


def borrowed(git_dir: Path, common: Path, files_max: int = OBJECT_FILES_MAX) -> str | None:
    """Why git would read from elsewhere if it were asked about this repository; None where it would not.

    `git_dir` and `common` have their links resolved. Objects that lie elsewhere are another's: a commit of
    theirs could be asked for by its id. More than `files_max` files of objects are not looked through.
    """
    for path in (git_dir / "HEAD", common / "config", *_linked(git_dir, common).values()):
        real = Path(os.path.realpath(path))
        if not (real.is_relative_to(git_dir) or real.is_relative_to(common)):
            return f"{_shown(path)}: is a link that leads out of the repository"
    todo, left = [str(common / "objects")], files_max
    alternates = str(common / "objects/info/alternates")
    while todo:
        here = todo.pop()
        try:
            with os.scandir(here) as found:
                for entry in found:
                    left -= 1
                    if entry.is_symlink():
                        return f"{_shown(entry.path)}: is a link; no objects are read through one"
                    if entry.is_dir(follow_symlinks=False):
                        todo.append(entry.path)
                    elif entry.path == alternates and not _is_empty(entry):
                        return f"{_shown(alternates)}: borrows objects, which are not read"
                    if left < 0:
                        return f"{_shown(here)}: more than {files_max:,} files of objects"
        except FileNotFoundError:  # git packs and prunes while we look
            continue
        except OSError:
            return f"{_shown(here)}: cannot be listed"
    return None


def _is_empty(entry: os.DirEntry[str]) -> bool:
    status = entry.stat(follow_symlinks=False)
    return stat.S_ISREG(status.st_mode) and status.st_size == 0


def _shown(path: Path | str) -> str:
    return shown_path(os.fsencode(path))


def _linked(git_dir: Path, common: Path) -> dict[str, Path]:
    """What there is of the repository that the private directory links to, by its name in there."""
    own = ("index", "logs/HEAD", *(path.name for path in git_dir.glob("sharedindex.*")))
    shared = ("refs", "packed-refs", "reftable", "shallow", "logs/refs", "info/exclude")
    links = {"odb": common / "objects"}
    links |= {name: git_dir / name for name in own} | {name: common / name for name in shared}
    return {name: path for name, path in links.items() if os.path.lexists(path)}


@contextmanager
def private_directory(
    git_dir: Path, common: Path, object_format: str, ref_storage: str
) -> Iterator[Path]:
    """The directory of the module's docstring, for the length of one question.

    `git_dir` and `common` are the real ones. Raises `GitFailure` where HEAD is neither a branch nor an id,
    and where the repository has come to borrow.
    """
    reason = borrowed(git_dir, common)
    if reason is not None:
        raise GitFailure(reason)
    with tempfile.TemporaryDirectory(prefix="causebook-git-") as name:
        here = Path(name)
        for folder in ("objects/info", "made", "info", "logs"):
            (here / folder).mkdir(parents=True)
        reftable = ref_storage == "reftable"
        config = _CONFIG.format(
            object_format=object_format,
            more="\trefStorage = reftable\n" if reftable else "",
            empty_tree=EMPTY_TREE[object_format],
        )
        (here / "config").write_text(config)
        (here / "objects/info/alternates").write_text("../odb\n../made\n")
        head = read_small(git_dir / "HEAD") or b""
        if not _HEAD.fullmatch(head):
            raise GitFailure(f"{_shown(git_dir / 'HEAD')}: expected a branch or a commit id")
        (here / "HEAD").write_bytes(head)
        for name_here, target in _linked(git_dir, common).items():
            (here / name_here).symlink_to(target)
        yield here
