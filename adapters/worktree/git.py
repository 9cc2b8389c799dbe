"""Git, asked without trusting the repository that is asked about.

A judged repository is hostile: its `.git/config` can name programs (`core.fsmonitor`, `filter.*`,
`diff.*.textconv`, `diff.external`, `gpg.program`, `remote.*.uploadpack`, aliases, hooks) and its
`.gitattributes` can choose among them. Denying them one by one loses the day git learns another. So every
question is put to a private git directory (`private.py`), made for that question and removed after it, whose
configuration is ours. Of the repository's own configuration three values are looked up, by a `git config`
that parses that one file, follows no include and acts on nothing in it:

    extensions.objectformat   sha1 or sha256, else the repository is refused
    extensions.refstorage     files or reftable, else the repository is refused
    core.worktree             only where the git directory lies outside the work tree: does it point back?

It follows that no program of the repository runs, that its `.git` is never written to (no index is
refreshed, no object stored, no lock taken), that grafts and `refs/replace` cannot show another history,
and that nothing is fetched. Only `ls-files` is given a work tree, and there it opens `.gitignore` files
alone; all else runs as in a bare repository, where no `.gitattributes` can hide a change as "binary".

Where a repository lies is not for hostile files to say either. `.git` must be a directory, or a link or a
`gitdir:` file to one that lies below it or that points back (a linked worktree, a submodule). And it must
hold what is read of it, or it could show the commits of any other repository on this disk. So one is refused
whose `objects/info/alternates` is not empty, or that has a link among its objects, or one that leads out of
it where its index, refs and the like should be. That is looked for before each question; what is swapped in
while git answers is not noticed. A clone that borrows (`--shared`, `--reference`) can be judged after
`git repack -a -d` and once that file is removed.

Git does not hash what it reads, so the content of every blob that is shown, or made a difference of, is
hashed here, and a forged one is an error (`checked.py`). Trees and commits are not hashed: whoever can write
to `.git` can have an id of a commit show other files, names or authors, each under the blob id that it has.
`git fsck` finds that. Nothing that merely repeats what the objects say is asked (`core.commitGraph`,
`core.multiPackIndex`).

Git 2.34 or later; never through a shell; bounded in bytes and in wall time (`process.py`).
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

from .checked import CheckedBlobs, check_blobs
from .comparison import Comparison, Hides
from .objects import Entry, entries
from .pointers import git_dir_of, pointed, real
from .private import borrowed, environment, private_directory
from .process import GitFailure, Output, run
from .text import shown, shown_path

GIT_SECONDS_MAX: Final = 30.0
LIST_BYTES_MAX: Final = 256 * 1024 * 1024
REF_BYTES_MAX: Final = 1_024

_ID_BYTES_MAX = 256 * 1024
_ID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


class NoRepository(GitFailure):
    """The root is not in the work tree of a usable git repository, or there is no git to ask.

    `pointer` is the `.git` that is there all the same, and `git_dirs` are the directories of one that is
    not usable: still git's own, and not to be shown.
    """

    pointer: Path | None = None
    git_dirs: tuple[Path, ...] = ()


class NoGit(NoRepository):
    """There is a repository, and no git to ask about it."""


class Repository:
    """The git repository that a root lies in, read-only, confined to the root's subtree."""

    def __init__(
        self, root: Path, top: Path, git_dir: Path, common: Path, git: str, seconds_max: float
    ) -> None:
        self.root = root
        self.top = top
        self.git_dir = git_dir
        self.common = common
        self.prefix = os.fsencode(root.relative_to(top)) + b"/" if root != top else b""
        self._git = git
        self._seconds_max = seconds_max
        self.object_format = self._setting("extensions.objectformat", ("sha1", "sha256"))
        self._ref_storage = self._setting("extensions.refstorage", ("files", "reftable"))

    @classmethod
    def find(cls, root: Path, git: str | None, seconds_max: float = GIT_SECONDS_MAX) -> Repository:
        """The repository whose work tree holds `root` (absolute, links resolved).

        As git does, it looks upwards and stops at the border of the file system. Raises `NoRepository`, and
        `GitFailure` where git does not answer.
        """
        device, stray = root.stat().st_dev, None
        for top in (root, *root.parents):
            if top.stat().st_dev != device:
                break
            git_dir = git_dir_of(top)
            if git_dir is None:
                if stray is None and os.path.lexists(top / ".git"):
                    stray = top / ".git"
                continue
            common = pointed(git_dir, "commondir") or git_dir
            try:
                return cls._usable(root, top, git_dir, common, git, seconds_max)
            except NoRepository as error:
                error.pointer, error.git_dirs = top / ".git", (git_dir, common)
                raise
        if stray is None:
            raise NoRepository("not in the work tree of a git repository")
        fault = NoRepository(
            f"{shown_path(os.fsencode(stray))}: is no git repository and names none"
        )
        fault.pointer = stray
        raise fault

    @classmethod
    def _usable(
        cls,
        root: Path,
        top: Path,
        git_dir: Path,
        common: Path,
        git: str | None,
        seconds_max: float,
    ) -> Repository:
        if git is None or not os.path.isabs(git) or not os.access(git, os.X_OK):
            raise NoGit("git is not installed")
        repository = cls(root, top, git_dir, common, git, seconds_max)
        if not repository._belongs():
            pointer = shown_path(os.fsencode(top / ".git"))
            raise NoRepository(f"{pointer}: leads to a repository that does not point back")
        reason = borrowed(git_dir, common)
        if reason is not None:
            raise NoRepository(reason)
        return repository

    @property
    def git_dirs(self) -> tuple[Path, ...]:
        """The directories that are git's own."""
        return self.git_dir, self.common

    def _belongs(self) -> bool:
        """Whether this git directory is that of this work tree, and not one it merely names."""
        pointer = self.top / ".git"
        if self.git_dir.is_relative_to(self.top):
            return self.common.is_relative_to(self.top)
        if self.common != self.git_dir:
            inside = self.git_dir.parent == self.common / "worktrees"
            return inside and pointed(self.git_dir, "gitdir") == pointer
        worktree = self._configured("core.worktree")
        return worktree is not None and real(self.git_dir / worktree) == self.top

    def _configured(self, name: str) -> str | None:
        output = self._run(
            ["config", "--file", str(self.common / "config"), "--no-includes", "--get", name],
            {"GIT_DIR": os.devnull},
            self.common,
        )
        if output.code not in (0, 1):
            raise NoRepository(f"{self._config}: git cannot read it: {shown(output.complaint)}")
        return os.fsdecode(output.data).rstrip("\n") if output.code == 0 else None

    def _setting(self, name: str, known: tuple[str, str]) -> str:
        value = (self._configured(name) or known[0]).lower()
        if value not in known:
            raise NoRepository(f"{self._config}: {name}: expected one of {known}")
        return value

    @property
    def _config(self) -> str:
        return shown_path(os.fsencode(self.common / "config"))

    def _run(
        self,
        arguments: Sequence[str | bytes],
        extra: dict[str, str],
        cwd: Path,
        stdin: bytes = b"",
        bytes_max: int = LIST_BYTES_MAX,
        take: Callable[[bytes], None] | None = None,
    ) -> Output:
        return run(
            [self._git, *arguments],
            cwd=cwd,
            env=environment(extra),
            stdin=stdin,
            bytes_max=bytes_max,
            seconds_max=self._seconds_max,
            take=take,
        )

    def _private(self) -> AbstractContextManager[Path]:
        return private_directory(self.git_dir, self.common, self.object_format, self._ref_storage)

    def _ask(
        self,
        private: Path,
        *arguments: str | bytes,
        codes: tuple[int, ...] = (0,),
        stdin: bytes = b"",
        bytes_max: int = LIST_BYTES_MAX,
        whole: bool = True,
        extra: Mapping[str, str] | None = None,
        take: Callable[[bytes], None] | None = None,
    ) -> Output:
        """Run git in the private directory. `take`: see `process.py`.

        Raises `GitFailure` where its exit code is not one of `codes`, or its answer must be `whole` and
        is longer than `bytes_max`.
        """
        settings = {"GIT_DIR": str(private), **(extra or {})}
        cwd = self.root if "GIT_WORK_TREE" in settings else private
        output = self._run(arguments, settings, cwd, stdin, bytes_max, take)
        if output.cut:
            if whole:
                raise GitFailure(f"git: answered more than {bytes_max:,} bytes")
        elif output.code not in codes:
            raise GitFailure(f"git: {output.complaint or f'ended with code {output.code}'}")
        return output

    def resolve(self, ref: str) -> str | None:
        """The id of the commit that `ref` names, or None where it names none."""
        plain = ref and not ref.startswith("-") and ref.isprintable()
        if not plain or len(ref.encode("utf-8", "replace")) > REF_BYTES_MAX:
            return None
        with self._private() as private:
            output = self._ask(
                private,
                *("rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}"),
                codes=(0, 1, 128),
                bytes_max=_ID_BYTES_MAX,
            )
        found = output.data.decode("ascii", "replace").strip()
        return found if output.code == 0 and _ID.fullmatch(found) else None

    def entry(self, commit: str, path: bytes) -> Entry | None:
        """What `commit` holds at `path` (below the root), or None. Raises `GitFailure`."""
        if not path:
            return Entry("040000", "")
        whole = self.prefix + path
        with self._private() as private:
            output = self._ask(private, "ls-tree", "-l", "-z", commit, "--", whole)
        return next((entry for name, entry in entries(output.data) if name == whole), None)

    def tree(self, commit: str) -> dict[bytes, Entry]:
        """All that `commit` holds below the root, by path below the root. Raises `GitFailure`."""
        below = ("--", self.prefix) if self.prefix else ()
        with self._private() as private:
            output = self._ask(private, "ls-tree", "-r", "-z", commit, *below)
        return {name[len(self.prefix) :]: entry for name, entry in entries(output.data)}

    def files(self) -> set[bytes]:
        """Paths below the root that are tracked, or neither tracked nor ignored.

        A tracked file that is gone is among them, and so are submodules and nested repositories, which
        are directories. Raises `GitFailure`.
        """
        with self._private() as private:
            output = self._ask(
                private,
                *("ls-files", "-c", "-o", "--exclude-standard", "-z"),
                extra={"GIT_WORK_TREE": str(self.top)},
            )
        return {path.rstrip(b"/") for path in output.data.split(b"\0") if path}

    def staged(self, commit: str, hides: Hides) -> bool:
        """Whether the index differs from `commit` below the root, but for what is hidden."""
        below = ("--", self.prefix) if self.prefix else ()
        with self._private() as private:
            asked = ("diff-index", "--cached", "--name-only", "--no-renames", "-z", commit, *below)
            paths = self._ask(private, *asked).data.split(b"\0")[:-1]
        return not all(hides(path[len(self.prefix) :]) for path in paths)

    def blob(self, blob: str, bytes_max: int) -> CheckedBlobs:
        """One blob, hashed to its end, with the first `bytes_max` bytes of it. Raises `GitFailure`."""
        with self._private() as private:
            ask = functools.partial(self._ask, private)
            return check_blobs(ask, [blob], self.object_format, bytes_max)

    def log(self, commit: str, count: int, bytes_max: int) -> Output:
        """The newest `count` commits that touch the root: id, author date, author, subject, a line each."""
        below = ("--", self.prefix) if self.prefix else ()
        with self._private() as private:
            return self._ask(
                private,
                *("rev-list", f"--max-count={count}", "--no-commit-header"),
                *("--encoding=UTF-8", "--format=%H %aI %an: %s", commit, *below),
                bytes_max=bytes_max,
                whole=False,
            )

    def diff(self, old: str, new: str, bytes_max: int, hides: Hides) -> Output:
        """A table of the files that differ between two commits or trees, then the patch."""
        with self._private() as private:
            return self._comparison(private).patch(old, new, bytes_max, hides)

    def diff_to(
        self,
        old: str,
        files: Iterable[tuple[bytes, str, str | bytes]],
        bytes_max: int,
        hides: Hides,
    ) -> Output:
        """The same, between `old` and `files`: (path below the root, mode, blob id or content)."""
        with self._private() as private:
            comparison = self._comparison(private)
            return comparison.patch(old, comparison.tree_of(files), bytes_max, hides)

    def _comparison(self, private: Path) -> Comparison:
        ask = functools.partial(self._ask, private)
        return Comparison(ask, private, self.object_format, self.prefix)
