"""The private git directory: what stands between git and the repository that it is asked about.

The repository's configuration is not read; every question is put to a directory made for that question and
removed after it:

    HEAD                  a copy
    config                ours, a few fixed lines; only the object format and the ref storage are taken over
    refs packed-refs reftable shallow logs index sharedindex.* info/exclude     links to the real ones
    objects/              empty; objects/info/alternates names the next two
    made/                 ours: what git writes lands here, and is dropped
    odb                   a link to the real objects
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from .objects import EMPTY_TREE
from .pointers import read_small
from .process import GitFailure

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


@contextmanager
def private_directory(
    git_dir: Path, common: Path, object_format: str, ref_storage: str
) -> Iterator[Path]:
    """The directory of the module's docstring, for the length of one question.

    `git_dir` and `common` are the real ones. Raises `GitFailure` where HEAD is neither a branch nor an id.
    """
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
            raise GitFailure(f"{git_dir / 'HEAD'}: expected a branch or a commit id")
        (here / "HEAD").write_bytes(head)
        links = [("odb", common / "objects"), ("index", git_dir / "index")]
        links += [("logs/HEAD", git_dir / "logs/HEAD")]
        links += [(path.name, path) for path in git_dir.glob("sharedindex.*")]
        shared = ("refs", "packed-refs", "reftable", "shallow", "logs/refs", "info/exclude")
        links += [(path, common / path) for path in shared]
        for path, target in links:
            if os.path.lexists(target):
                (here / path).symlink_to(target)
        yield here
