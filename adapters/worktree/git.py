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

Git 2.34 or later; never through a shell; bounded in bytes and in wall time (`process.py`).
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

from .objects import Entry, blob_id, entries
from .pointers import git_dir_of, pointed
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

    `git_dirs` are the directories of one that is not usable: still git's own, and not to be shown.
    """

    git_dirs: tuple[Path, ...] = ()


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
        device = root.stat().st_dev
        for top in (root, *root.parents):
            if top.stat().st_dev != device:
                break
            git_dir = git_dir_of(top)
            if git_dir is None:
                continue
            common = pointed(git_dir, "commondir") or git_dir
            try:
                return cls._usable(root, top, git_dir, common, git, seconds_max)
            except NoRepository as error:
                error.git_dirs = (git_dir, common)
                raise
        raise NoRepository("not in the work tree of a git repository")

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
            raise NoRepository("git is not installed")
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
        return worktree is not None and (self.git_dir / worktree).resolve() == self.top

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
    ) -> Output:
        return run(
            [self._git, *arguments],
            cwd=cwd,
            env=environment(extra),
            stdin=stdin,
            bytes_max=bytes_max,
            seconds_max=self._seconds_max,
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
    ) -> Output:
        """Run git in the private directory.

        Raises `GitFailure` where its exit code is not one of `codes`, or its answer must be `whole` and
        is longer than `bytes_max`.
        """
        settings = {"GIT_DIR": str(private), **(extra or {})}
        cwd = self.root if "GIT_WORK_TREE" in settings else private
        output = self._run(arguments, settings, cwd, stdin, bytes_max)
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

    def staged(self, commit: str) -> bool:
        """Whether the index differs from `commit` below the root. Raises `GitFailure`."""
        below = ("--", self.prefix) if self.prefix else ()
        with self._private() as private:
            output = self._ask(
                private, "diff-index", "--cached", "--quiet", commit, *below, codes=(0, 1)
            )
        return output.code == 1

    def blob(self, blob: str, bytes_max: int) -> bytes:
        """The first `bytes_max` bytes of an object's content. Raises `GitFailure`."""
        with self._private() as private:
            asked = ("cat-file", "blob", blob)
            return self._ask(private, *asked, bytes_max=bytes_max, whole=False).data

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

    def diff(self, old: str, new: str, bytes_max: int) -> Output:
        """A table of the files that differ between two commits or trees, then the patch."""
        with self._private() as private:
            return self._diff(private, old, new, bytes_max)

    def diff_to(
        self, old: str, files: Iterable[tuple[bytes, str, str | bytes]], bytes_max: int
    ) -> Output:
        """The difference between `old` and `files`: (path below the root, mode, blob id or content).

        Contents become objects of the private directory, so that git need not open a work tree, where a
        path may change between its check and its use.
        """
        with self._private() as private:
            lines = bytearray()
            for path, mode, content in files:
                if isinstance(content, bytes):
                    content = self._store(private, content)
                lines += f"{mode} {content}\t".encode() + self.prefix + path + b"\0"
            # Apart from the real objects: writing one that exists there would touch its time stamp.
            apart = {
                "GIT_INDEX_FILE": str(private / "made-index"),
                "GIT_OBJECT_DIRECTORY": str(private / "made"),
            }
            asked = ("update-index", "-z", "--index-info")
            self._ask(private, *asked, stdin=bytes(lines), extra=apart)
            tree = self._ask(private, "write-tree", "--missing-ok", extra=apart).data
            return self._diff(private, old, tree.decode("ascii").strip(), bytes_max)

    def _diff(self, private: Path, old: str, new: str, bytes_max: int) -> Output:
        asked: list[str | bytes] = ["diff-tree", "-r", "-p", "-M", "--full-index", "--no-color"]
        asked += ["--no-ext-diff", "--no-textconv", "--stat=120,100", "--stat-count=400"]
        if self.prefix:
            asked.append(b"--relative=" + self.prefix)
        return self._ask(private, *asked, old, new, bytes_max=bytes_max, whole=False)

    def _store(self, private: Path, content: bytes) -> str:
        blob = blob_id(content, self.object_format)
        folder = private / "made" / blob[:2]
        folder.mkdir(exist_ok=True)
        packed = zlib.compress(b"blob %d\0" % len(content) + content, 1)
        (folder / blob[2:]).write_bytes(packed)
        return blob
