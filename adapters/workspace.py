"""A directory, and its git history where it has one, that answers the read tools of judges.

`GitWorkspace` honours `domain.ports.Workspace`. It is read-only and bounded (`worktree/limits.py`), and it
answers nothing that lies outside its root (`worktree/confined.py`, rules 1 to 5). Files that git ignores are
not listed and are in no digest, but can be read by name (their answer carries no blob id).

A file that holds a private key in PEM is withheld: a read of it is answered with an `error` that says so, a
difference shows a line in its place (`worktree/withheld.py`). Its name is listed, and it counts in digests.

Lines end at LF and nowhere else. Text is UTF-8; a byte that does not decode is shown as U+FFFD, and a last
line in brackets says so. Bad input of any kind is an answer with `error` set, never an exception.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ..domain.errors import BadData, Denied, IOFailure, Misuse, NoInput
from ..domain.ports import ReadResult, WorkspaceState
from ..domain.tools import READ_TOOLS
from .worktree.confined import PATH_BYTES_MAX, PRIVATE, Refused, Tree
from .worktree.git import GIT_SECONDS_MAX, NoGit, NoRepository, Repository
from .worktree.limits import LIMITS, Limits
from .worktree.lines import lines_of, scan_lines
from .worktree.listing import files_below, list_of, summary_of
from .worktree.objects import EMPTY_TREE, GITLINK, SYMLINK
from .worktree.process import GitFailure, Output
from .worktree.state import Seen, contents_of, state_of, survey_of
from .worktree.text import noted, shown, shown_path, text_within
from .worktree.withheld import WITHHELD, without_keys


class GitWorkspace:
    """A working tree that answers reads (`domain.ports.Workspace`), and says what it was.

    `root`: the directory judged. `git`: absolute path of the git binary, by default the one on PATH.
    `git_seconds_max`: wall time that one git process may take. `limits`: what is read and answered at most.
    `private`: files and directories, there or not yet, that are not read, nor listed, nor in any difference
    or digest, now or in history, where they lie below the root: a judge has no business with the ledger and
    its keys.

    Raises `NoInput` where there is no such directory, `BadData` where it is not a directory or its path
    is not UTF-8, `Denied` where it may not be entered, `IOFailure` where git does not answer.
    """

    def __init__(
        self,
        root: Path,
        *,
        git: str | None = None,
        git_seconds_max: float = GIT_SECONDS_MAX,
        limits: Limits = LIMITS,
        private: Iterable[Path] = (),
    ) -> None:
        self._limits = limits
        given = Path(os.path.abspath(root))
        try:
            self.root = given.resolve(strict=True)
            is_directory = self.root.is_dir()
        except (FileNotFoundError, NotADirectoryError):
            message = f"{shown(str(given))}: expected a directory, found nothing"
            raise NoInput(message, hint="name the directory of the work to judge") from None
        except PermissionError:
            raise Denied(f"{shown(str(given))}: may not be entered") from None
        except (OSError, RuntimeError, ValueError):
            raise BadData(f"{shown(str(given))}: expected a directory") from None
        if not is_directory:
            message = f"{shown(str(given))}: expected a directory, found a file"
            raise BadData(message, hint="name the directory of the work to judge, not a file in it")
        if not _is_text(str(self.root)):
            raise BadData(f"{shown(str(self.root))}: expected a path in UTF-8")
        self._repository: Repository | None = None
        self._no_repository = NoRepository("")
        try:
            self._repository = Repository.find(
                self.root, git or shutil.which("git"), git_seconds_max
            )
            of_git = self._repository.git_dirs
        except NoRepository as error:
            self._no_repository, of_git = error, error.git_dirs
        self._tree = Tree(self.root, given, of_git, private)

    # --- reads ---------------------------------------------------------------------------------------

    def read(self, tool: str, arguments: Mapping[str, Any]) -> ReadResult:
        """Answer one read. Whatever is wrong with it, or goes wrong, is an answer with `error` set."""
        known = READ_TOOLS.get(tool)
        misfit = "no such read tool" if known is None else known.misfit(arguments)
        if known is None or misfit is not None:
            return _failure(misfit or "")
        values = known.defaults() | {k: v for k, v in arguments.items() if v is not None}
        place = next((shown(str(values[a.name])) for a in known.arguments if a.is_path), tool)
        try:
            return self._answer(tool, values)
        except Refused as refusal:
            return _failure(f"{place}: {refusal}")
        except GitFailure as failure:
            return _failure(failure.message)
        except OSError as error:
            return _failure(f"{place}: {os.strerror(error.errno or 0).lower()}")

    def _answer(self, tool: str, values: Mapping[str, Any]) -> ReadResult:
        if tool == "read_file":
            return self._read_lines(values["path"], 1, None)
        if tool == "read_file_lines":
            return self._read_lines(values["path"], values["start"], values["end"])
        if tool == "list_files":
            return list_of(self._files(self._directory(values["directory"])), self._limits)
        if tool == "summarize_directory":
            paths = self._files(self._directory(values["directory"]))
            return summary_of(self._tree, paths, self._limits)
        if tool == "git_show":
            return self._show(values["ref"], values["path"])
        if tool == "git_log":
            return self._log(values["n"])
        old, new = self._commit(values["ref1"]), self._commit(values["ref2"])
        limit = self._limits.read_bytes_max
        return _patch(self._git().diff(old, new, limit + 1, self._tree.hides), limit)

    def _read_lines(self, path: str, start: int, end: int | None) -> ReadResult:
        if end is not None and end < start:
            raise Refused(f"expected end at or after start, found {start} to {end}")
        limits, object_format = self._limits, self._object_format
        with self._tree.opened(self._tree.parts(path)) as (descriptor, status, real):
            if stat.S_ISDIR(status.st_mode):
                raise Refused("is a directory; list_files shows what is in it")
            scan = scan_lines(descriptor, status.st_size, start, end, object_format, limits)
        blob = None if scan.holds_key else self._clean(real, scan.blob)
        return lines_of(scan, start, end, blob, limits)

    @property
    def _object_format(self) -> str | None:
        return self._repository.object_format if self._repository else None

    def _clean(self, path: bytes, blob: str | None) -> str | None:
        """`blob`, where HEAD holds just that at `path`: the file is tracked and its bytes are clean."""
        if self._repository is None or blob is None:
            return None
        commit = self._repository.resolve("HEAD")
        entry = self._repository.entry(commit, path) if commit else None
        return blob if entry is not None and entry.id == blob else None

    def _directory(self, path: str) -> bytes:
        """The path below the root, links resolved, of a directory a model named."""
        with self._tree.opened(self._tree.parts(path)) as (_, status, real):
            if not stat.S_ISDIR(status.st_mode):
                raise Refused("is a file, not a directory")
            return real

    def _files(self, below: bytes = b"") -> list[bytes]:
        found_files_max = self._limits.found_files_max
        return files_below(self._tree, self._repository, below, found_files_max)

    def _git(self) -> Repository:
        if self._repository is None:
            raise Refused(self._no_repository.message)
        return self._repository

    def _commit(self, ref: str) -> str:
        commit = self._git().resolve(ref)
        if commit is None:
            raise Refused(f"{shown(ref)} names no commit")
        return commit

    def _show(self, ref: str, path: str) -> ReadResult:
        commit = self._commit(ref)
        parts = [part for part in self._tree.parts(path) if part not in (b"", b".")]
        if b".." in parts:
            raise Refused("expected a path without .. parts")
        name = b"/".join(parts)
        if self._tree.hides(name):
            raise Refused(PRIVATE)
        entry = self._git().entry(commit, name)
        if entry is None:
            raise Refused(f"not in commit {commit}")
        if entry.mode == GITLINK:
            raise Refused(f"is a submodule, at commit {entry.id}")
        if entry.size is None:
            raise Refused(f"is a directory in commit {commit}")
        limit, size_max = self._limits.read_bytes_max, self._limits.scan_bytes_max
        if entry.size > size_max:
            raise Refused(
                f"has {entry.size:,} bytes in commit {commit}; at most {size_max:,} are read"
            )
        blob = self._git().blob(entry.id, limit + 1)
        if blob.with_keys:
            raise Refused(WITHHELD)
        content = bytes(blob.head)
        if entry.mode == SYMLINK:
            cut = len(content) > PATH_BYTES_MAX
            part = f", cut after {PATH_BYTES_MAX:,} of {blob.size:,} bytes" if cut else ""
            target = shown_path(content[:PATH_BYTES_MAX])
            return ReadResult(f"[link to {target}{part}]", cut=cut, blob=entry.id)
        if b"\0" in content:
            return ReadResult(f"binary, {blob.size:,} bytes", blob=entry.id)
        text, count, cut = text_within(content, limit)
        if cut:
            held = f"lines 1-{count:,}" if count else "a part of line 1"
            text = noted(text, f"[cut: {held} of a file of {blob.size:,} bytes]")
        return ReadResult(text, cut=cut, blob=entry.id)

    def _log(self, count: int) -> ReadResult:
        limit = self._limits.read_bytes_max
        output = self._git().log(self._commit("HEAD"), count, limit + 1)
        shown_lines = b"\n".join(without_keys(line) for line in output.data.split(b"\n"))
        text, lines, cut = text_within(shown_lines, limit)
        if cut:
            text = noted(text, f"[cut: {lines:,} commits of those asked for]")
        return ReadResult(text or "[no commit touches this directory]", cut=cut)

    # --- what the engine asks ------------------------------------------------------------------------

    def describe(self) -> WorkspaceState:
        """What the tree is now. It reads every file, and trusts no time stamp and no index.

        `commit`: HEAD, None outside of git or before a first commit. `dirty`: in git, and the files of
        the list rule (`worktree/listing.py`) are not byte for byte, mode for mode, those of the commit
        below the root, or the index differs from it. That is stricter than `git status`: line ends
        turned over, content swapped by a filter, files left out by a sparse checkout and a submodule
        that is checked out all count, for then the commit does not say what a judge could read.
        Outside of git there is nothing to differ from: `dirty` is False then, and `tree` says what was there.
        `tree`: None where the commit says it all, else the SHA-256, 64 hex digits, of the manifest
        (`worktree/state.py`).

        Raises `Denied` where a file may not be read, `IOFailure` where the disk or git fails, `BadData`
        where there are more than `found_files_max` files, or more than `hashed_bytes_max` in them.
        """
        try:
            return state_of(self.root, self._repository, self._survey(), self._tree.hides)
        except Refused as refusal:
            hint = "what git ignores is no part of the work; --workspace DIR names another folder"
            raise BadData(f"{self.root}: {refusal}", hint=hint) from None
        except PermissionError as error:
            raise Denied(f"{self.root}: {shown(_path(error))}: may not be read") from None
        except OSError as error:
            raise IOFailure(f"{self.root}: {os.strerror(error.errno or 0).lower()}") from None

    def _survey(self) -> Iterator[Seen]:
        """Every file of the list rule, hashed, sorted by path.

        A generator: no file is looked for before the first is asked for, when git has said what it holds.
        """
        object_format = self._object_format or "sha1"
        yield from survey_of(self._tree, self._files(), object_format, self._limits)

    def resolve_ref(self, ref: str) -> str:
        """The id of the commit that `ref` names; the id of the empty tree stands for itself.

        Raises `NoInput` where there is no such commit, and what `default_base` raises.
        """
        if self._repository is None:
            raise self._not_in_git()
        if ref == EMPTY_TREE[self._repository.object_format]:
            return ref
        commit = self._repository.resolve(ref)
        if commit is None:
            message = f"{self.root}: ref {shown(ref)}: expected a commit, found none"
            raise NoInput(message, hint="see what there is with: git log --oneline --all")
        return commit

    def default_base(self) -> str:
        """What finished work is compared with by default: HEAD's first parent, else the empty tree.

        Raises `Misuse` where no `.git` is there; where one is, `NoInput` without a git to read it, and
        `BadData` where it cannot be used: there is a history then, and no answer from it.
        """
        if self._repository is None:
            raise self._not_in_git()
        return self._repository.resolve("HEAD^") or EMPTY_TREE[self._repository.object_format]

    def _not_in_git(self) -> Misuse | NoInput | BadData:
        why = self._no_repository
        if isinstance(why, NoGit):
            hint = f"install git, or put it on PATH: without it the history of {why.pointer} is not read"
            return NoInput("git: not found", hint=hint)
        message = f"{self.root}: expected a git repository: {why.message}"
        if why.pointer is not None:
            return BadData(message, hint="repair it, or judge a copy of the files that has no .git")
        return Misuse(message, hint="leave the base ref out, or judge a git work tree")

    def diff(self, base: str, head: str | None = None) -> ReadResult:
        """What changed from `base` to `head`, or to the files as they are now where `head` is None.

        A table of the changed files, then a patch, of at most `brief_bytes_max` bytes. Files that are
        not tracked and not ignored are part of it; what is private, and the content of keys, is not. A
        file over `diffed_file_bytes_max` is shown by its size, a submodule by its commit. What fails is an
        answer with `error` set.
        """
        limit = self._limits.brief_bytes_max
        try:
            repository = self._git()
            empty = EMPTY_TREE[repository.object_format]
            old = base if base == empty else self._commit(base)
            hides = self._tree.hides
            if head is not None:
                return _patch(repository.diff(old, self._commit(head), limit + 1, hides), limit)
            commit = repository.resolve("HEAD")
            held = repository.tree(commit) if commit else {}
            bytes_max = self._limits.diffed_file_bytes_max
            contents = contents_of(self._tree, held, self._survey(), bytes_max)
            return _patch(repository.diff_to(old, contents, limit + 1, hides), limit)
        except Refused as refusal:
            return _failure(str(refusal))
        except GitFailure as failure:
            return _failure(failure.message)
        except OSError as error:
            return _failure(f"{shown(_path(error))}: {os.strerror(error.errno or 0).lower()}")


def _patch(output: Output, bytes_max: int) -> ReadResult:
    text, count, cut = text_within(output.data, bytes_max)
    if cut:
        text = noted(
            text, f"[cut: the first {count:,} lines; the table at the top names the files]"
        )
    return ReadResult(text or "[no difference]", cut=cut)


def _failure(why: str) -> ReadResult:
    return ReadResult(f"error: {why}", error=True)


def _path(error: OSError) -> str:
    return os.fsdecode(error.filename) if isinstance(error.filename, bytes | str) else "a file"


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
