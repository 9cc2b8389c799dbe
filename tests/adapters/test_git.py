"""History is read through git, and nothing that the repository brings along runs, writes or leaks."""

from __future__ import annotations

import hashlib
import itertools
import os
import select
import shutil
import stat
import subprocess
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from causebook.adapters.workspace import GitWorkspace
from causebook.adapters.worktree import git as git_module
from causebook.adapters.worktree.limits import LIMITS, Limits
from causebook.adapters.worktree.objects import EMPTY_TREE, blob_id
from causebook.adapters.worktree.private import borrowed
from causebook.adapters.worktree.process import GitFailure, run
from causebook.domain.errors import BadData, Denied, Misuse, NoInput
from causebook.domain.ports import ReadResult

CANARY = "canary-5b1f0c6e-outside-the-root"
GIT = shutil.which("git") or "git"


def git(where: Path, *arguments: str) -> str:
    """Run git as a user would, with no configuration but what is given here."""
    settings = ("user.name=A Maintainer", "user.email=a@example.com", "init.defaultBranch=main")
    options = [part for setting in settings for part in ("-c", setting)]
    kept = {
        "PATH": os.environ["PATH"],
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_NOSYSTEM": "1",
    }
    kept["GIT_AUTHOR_DATE"] = kept["GIT_COMMITTER_DATE"] = "2026-11-30T15:36:00Z"
    done = subprocess.run(
        [GIT, *options, *arguments], cwd=where, env=kept, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """Two commits: `a.txt` and `sub/s.txt`, then one line more in each, and a link."""
    root = tmp_path / "repo"
    (root / "sub").mkdir(parents=True)
    git(root, "init", "-q")
    (root / "a.txt").write_text("one\n")
    (root / "sub" / "s.txt").write_text("sub one\n")
    (root / ".gitignore").write_text("*.log\n")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "First")
    (root / "a.txt").write_text("one\ntwo\n")
    (root / "sub" / "s.txt").write_text("sub one\nsub two\n")
    (root / "link").symlink_to("a.txt")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "Second\n\nwith a body")
    return root


def read(root: Path, tool: str, **arguments: Any) -> ReadResult:
    answer = GitWorkspace(root).read(tool, arguments)
    answer.text.encode()
    return answer


def snapshot(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """Mode, modification time in nanoseconds and content of everything below `folder`."""
    return {
        str(path): (
            path.lstat().st_mode,
            path.lstat().st_mtime_ns,
            path.read_bytes() if stat.S_ISREG(path.lstat().st_mode) else b"",
        )
        for path in sorted(folder.rglob("*"))
    }


EVERY_READ: list[tuple[str, dict[str, Any]]] = [
    ("read_file", {"path": "a.txt"}),
    ("read_file_lines", {"path": "a.txt", "start": 1, "end": 1}),
    ("list_files", {}),
    ("summarize_directory", {}),
    ("git_show", {"ref": "HEAD", "path": "a.txt"}),
    ("git_log", {"n": 5}),
    ("read_diff_between_refs", {"ref1": "HEAD^", "ref2": "HEAD"}),
]


def everything(root: Path) -> list[str]:
    """Use all that the workspace offers; the texts it answered."""
    workspace = GitWorkspace(root)
    answers = [workspace.read(tool, arguments) for tool, arguments in EVERY_READ]
    workspace.describe()
    answers += [workspace.diff(workspace.default_base()), workspace.diff("HEAD^", "HEAD")]
    assert not [answer.text for answer in answers if answer.error]
    return [answer.text for answer in answers]


# --- what the tools answer -------------------------------------------------------------------------------


def test_history_is_read(repo: Path) -> None:
    head, first = git(repo, "rev-parse", "HEAD"), git(repo, "rev-parse", "HEAD^")
    assert read(repo, "git_log").text == (
        f"{head} 2026-11-30T15:36:00+00:00 A Maintainer: Second\n"
        f"{first} 2026-11-30T15:36:00+00:00 A Maintainer: First\n"
    )
    assert read(repo, "git_log", n=1).text.startswith(head)
    one = blob_id(b"one\n", "sha1")
    assert read(repo, "git_show", ref="HEAD~1", path="a.txt") == ReadResult("one\n", blob=one)
    assert read(repo, "git_show", ref="main", path="link").text == "[link to a.txt]"
    diff = read(repo, "read_diff_between_refs", ref1=first, ref2="main").text
    assert " 3 files changed" in diff
    assert "\n+sub two\n" in diff


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("none", "not in commit"),
        ("sub", "is a directory"),
        (".", "is a directory"),
        ("../repo/a.txt", "without .. parts"),
        ("/etc/passwd", "outside the workspace root"),
        ("a\0", "null byte"),
        (":(top)a.txt", "not in commit"),
        ("*.txt", "not in commit"),
        ("-h", "not in commit"),
    ],
)
def test_a_path_that_a_commit_does_not_hold_is_an_answer(repo: Path, path: str, words: str) -> None:
    answer = read(repo, "git_show", ref="HEAD", path=path)
    assert answer.error
    assert words in answer.text


@pytest.mark.parametrize(
    "ref",
    [
        "",
        "none",
        "--output=/tmp/causebook-pwned",
        "-h",
        "--all",
        "--git-dir=/",
        "HEAD..main",
        "HEAD main",
        "HEAD:a.txt",
        "^HEAD",
        "HEAD\n",
        "HEAD\0",
        "\udcff",
        "x" * 5_000,
        "../../etc/passwd",
        "$(touch pwned)",
        "0" * 40,
    ],
)
def test_a_hostile_ref_names_no_commit(repo: Path, ref: str) -> None:
    for tool, arguments in (
        ("git_show", {"ref": ref, "path": "a.txt"}),
        ("read_diff_between_refs", {"ref1": "HEAD", "ref2": ref}),
        ("read_diff_between_refs", {"ref1": ref, "ref2": "HEAD"}),
    ):
        answer = read(repo, tool, **arguments)
        assert answer.error
        assert "names no commit" in answer.text
    with pytest.raises(NoInput, match="expected a commit, found none"):
        GitWorkspace(repo).resolve_ref(ref)
    assert not Path("/tmp/causebook-pwned").exists()


def test_a_binary_a_long_and_a_not_utf_8_file_of_the_past(repo: Path) -> None:
    (repo / "binary").write_bytes(b"\0" * 2_000)
    (repo / "long").write_text(("x" * 99 + "\n") * 10_000)
    (repo / "latin").write_bytes(b"caf\xe9\n")
    git(repo, "add", "-A")
    git(repo, "commit", "-qm", "Third")
    assert read(repo, "git_show", ref="HEAD", path="binary").text == "binary, 2,000 bytes"
    long = read(repo, "git_show", ref="HEAD", path="long")
    assert long.cut
    assert long.lines is None
    assert long.text.endswith("\n[cut: lines 1-655 of a file of 1,000,000 bytes]")
    assert "caf\ufffd\n[not UTF-8" in read(repo, "git_show", ref="HEAD", path="latin").text
    diff = read(repo, "read_diff_between_refs", ref1="HEAD^", ref2="HEAD")
    assert diff.cut
    assert len(diff.text.encode()) < LIMITS.read_bytes_max + 300
    assert " long   | 10000 " in diff.text.partition("diff --git")[0]
    assert "[cut: the first " in diff.text.splitlines()[-1]


def test_a_long_link_of_the_past_is_cut_and_says_so(repo: Path) -> None:
    (repo / "target").write_text("x" * 5_000)
    blob = git(repo, "hash-object", "-w", "target")
    git(repo, "update-index", "--add", "--cacheinfo", f"120000,{blob},long")
    git(repo, "commit", "-qm", "Third")
    answer = read(repo, "git_show", ref="HEAD", path="long")
    text = f"[link to {'x' * 4_096}, cut after 4,096 of 5,000 bytes]"
    assert answer == ReadResult(text, cut=True, blob=blob)


# --- blob ids --------------------------------------------------------------------------------------------


def test_a_tracked_and_clean_file_has_its_blob_id(repo: Path) -> None:
    known = git(repo, "rev-parse", "HEAD:a.txt")
    assert read(repo, "read_file", path="a.txt").blob == known
    assert read(repo, "read_file", path="link").blob == known
    assert read(repo, "read_file_lines", path="a.txt", start=2, end=2).blob == known


def test_a_changed_untracked_or_ignored_file_has_no_blob_id(repo: Path) -> None:
    (repo / "a.txt").write_text("other\n")
    (repo / "new").write_text("one\n")
    (repo / "x.log").write_text("log\n")
    for path in ("a.txt", "new", "x.log"):
        answer = read(repo, "read_file", path=path)
        assert (answer.error, answer.blob) == (False, None)
    git(repo, "update-index", "--assume-unchanged", "a.txt")
    assert read(repo, "read_file", path="a.txt").blob is None


# --- the list rule and the state of the tree -------------------------------------------------------------


def test_ignored_and_deleted_files_are_not_listed(repo: Path) -> None:
    (repo / "x.log").touch()
    (repo / "new").touch()
    (repo / "a.txt").unlink()
    assert read(repo, "list_files").text.split() == [".gitignore", "link", "new", "sub/s.txt"]
    assert read(repo, "list_files", directory="sub").text == "sub/s.txt\n"


def test_a_directory_too_deep_to_enter_is_marked_in_git_too(repo: Path) -> None:
    git(repo, "config", "core.longPaths", "true")
    deep = repo / ("d/" * 140)
    deep.mkdir(parents=True)
    for bottom in ("tracked", "untracked"):
        (deep / bottom).touch()
    git(repo, "add", "d/" * 140 + "tracked")
    git(repo, "commit", "-qm", "Deep")
    marked = "d/" * 129 + " [cannot be listed]"
    assert read(repo, "list_files").text.splitlines() == [
        *(".gitignore", "a.txt", marked, "link", "sub/s.txt")
    ]
    assert read(repo, "list_files", directory="d/d").text == f"{marked}\n"
    summary = read(repo, "summarize_directory").text.splitlines()
    assert summary[0].startswith("all: 4 files, ")
    assert summary[-1] == "[not counted: what is in 1 directories that cannot be listed]"
    with pytest.raises(Denied, match="d/…: may not be read"):
        GitWorkspace(repo).describe()
    answer = GitWorkspace(repo).diff("HEAD^")
    assert answer.error
    assert answer.text.endswith("d/…: permission denied")
    shutil.rmtree(repo / "d")
    assert "d/" not in read(repo, "list_files").text


def test_a_clean_tree_is_its_commit(repo: Path) -> None:
    (repo / "x.log").write_text("ignored\n")
    state = GitWorkspace(repo).describe()
    assert (state.root, state.commit) == (str(repo), git(repo, "rev-parse", "HEAD"))
    assert (state.tree, state.dirty) == (None, False)


def link_elsewhere(repo: Path) -> None:
    (repo / "link").unlink()
    (repo / "link").symlink_to("sub/s.txt")


def file_for_link(repo: Path) -> None:
    (repo / "link").unlink()
    (repo / "link").write_text("a.txt")


def link_for_directory(repo: Path) -> None:
    (repo / "sub").rename(repo / "x.log")
    (repo / "sub").symlink_to("x.log")


def fifo_for_file(repo: Path) -> None:
    (repo / "a.txt").unlink()
    os.mkfifo(repo / "a.txt")


def stage_an_old_version(repo: Path) -> None:
    old = git(repo, "rev-parse", "HEAD^:a.txt")
    git(repo, "update-index", "--cacheinfo", f"100644,{old},a.txt")


def change_what_git_overlooks(repo: Path) -> None:
    git(repo, "update-index", "--assume-unchanged", "a.txt")
    (repo / "a.txt").write_text("one\nTWO\n")


def nested_repository(repo: Path) -> None:
    (repo / "nested").mkdir()
    git(repo / "nested", "init", "-q")
    (repo / "nested" / "f").touch()


DIRT: dict[str, Callable[[Path], object]] = {
    "a modified file": lambda repo: (repo / "a.txt").write_text("else\n"),
    "an untracked file": lambda repo: (repo / "new").write_text(""),
    "a deleted file": lambda repo: os.unlink(repo / "a.txt"),
    "a mode": lambda repo: os.chmod(repo / "a.txt", 0o755),
    "a link's target": link_elsewhere,
    "a file where a link was": file_for_link,
    "a link where a directory was": link_for_directory,
    "a fifo where a file was": fifo_for_file,
    "a change only in the index": stage_an_old_version,
    "a change git is told to overlook": change_what_git_overlooks,
    "a nested repository": nested_repository,
}


@pytest.mark.parametrize("dirt", DIRT)
def test_what_makes_a_tree_dirty(repo: Path, dirt: str) -> None:
    DIRT[dirt](repo)
    state = GitWorkspace(repo).describe()
    assert state.dirty
    assert state.commit == git(repo, "rev-parse", "HEAD")
    assert state.tree is not None
    assert len(state.tree) == 64


def test_the_manifest_in_git_leaves_out_what_is_ignored(repo: Path) -> None:
    (repo / "x.log").touch()
    (repo / "new").write_text("new\n")
    manifest = b""
    for path in (".gitignore", "a.txt", "link", "new", "sub/s.txt"):
        content = b"a.txt" if path == "link" else (repo / path).read_bytes()
        mode = b"120000" if path == "link" else b"100644"
        manifest += mode + b" " + hashlib.sha256(content).hexdigest().encode()
        manifest += b" " + path.encode() + b"\0"
    assert GitWorkspace(repo).describe().tree == hashlib.sha256(manifest).hexdigest()


def test_a_repository_without_a_commit(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / "a").write_text("x\n")
    workspace = GitWorkspace(tmp_path)
    state = workspace.describe()
    assert (state.commit, state.dirty) == (None, True)
    assert state.tree
    assert workspace.default_base() == EMPTY_TREE["sha1"]
    assert workspace.read("git_log", {}).text == "error: git_log: HEAD names no commit"
    assert workspace.read("read_file", {"path": "a"}).text == "x\n"
    assert "\n+x\n" in workspace.diff(workspace.default_base()).text


def test_a_sha_256_repository(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "--object-format=sha256")
    (tmp_path / "a.txt").write_text("x\n")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "First")
    workspace = GitWorkspace(tmp_path)
    assert workspace.default_base() == EMPTY_TREE["sha256"]
    assert workspace.read("read_file", {"path": "a.txt"}).blob == git(
        tmp_path, "rev-parse", "HEAD:a.txt"
    )
    assert not workspace.describe().dirty
    (tmp_path / "a.txt").write_text("y\n")
    assert "\n-x\n+y\n" in workspace.diff("HEAD").text


# --- the brief -------------------------------------------------------------------------------------------


def test_the_default_base_is_the_parent_and_then_the_empty_tree(repo: Path) -> None:
    workspace = GitWorkspace(repo)
    assert workspace.default_base() == workspace.resolve_ref("HEAD^")
    git(repo, "checkout", "-q", "HEAD^")
    assert workspace.default_base() == EMPTY_TREE["sha1"]
    assert workspace.resolve_ref(workspace.default_base()) == EMPTY_TREE["sha1"]
    assert "\n+one\n" in workspace.diff(workspace.default_base()).text


def test_the_brief_of_a_dirty_tree_shows_what_is_not_committed(repo: Path) -> None:
    (repo / "new.py").write_text("fresh = 1\n")
    (repo / "sub" / "s.txt").unlink()
    (repo / "x.log").write_text(CANARY)
    (repo / "out").symlink_to("/etc/passwd")
    for name in (b"a\\b\xff", b"git~1", b'q"\n'):
        os.close(os.open(os.path.join(os.fsencode(repo), name), os.O_CREAT, 0o644))
    before = snapshot(repo / ".git")
    text = GitWorkspace(repo).diff("HEAD^").text
    assert snapshot(repo / ".git") == before
    for line in ("+two", "+fresh = 1", "-sub one", "deleted file mode 100644", "+/etc/passwd"):
        assert f"\n{line}\n" in text
    assert CANARY not in text
    assert "root:" not in text
    assert GitWorkspace(repo).diff("HEAD^", "HEAD").text.count("fresh") == 0


def test_the_brief_of_a_clean_tree_is_that_of_its_commits(repo: Path) -> None:
    workspace = GitWorkspace(repo)
    assert workspace.diff("HEAD^") == workspace.diff("HEAD^", "HEAD")
    assert workspace.diff("HEAD").text == "[no difference]"
    assert workspace.diff("none").error


def test_a_file_too_large_to_compare_is_named_by_its_size(repo: Path) -> None:
    limits = Limits(diffed_file_bytes_max=1_000, brief_bytes_max=600)
    workspace = GitWorkspace(repo, limits=limits)
    (repo / "large").write_text("x" * 1_001)
    assert "+[too large to compare: 1,001 bytes]" in workspace.diff("HEAD").text
    answer = workspace.diff(EMPTY_TREE["sha1"])
    assert answer.cut
    assert len(answer.text) < 800


# --- where the root and the repository lie ---------------------------------------------------------------


def test_a_root_below_the_top_sees_its_own_subtree_alone(repo: Path) -> None:
    (repo / "a.txt").write_text(f"{CANARY}\n")
    git(repo, "commit", "-qam", f"{CANARY} at the top")
    root = repo / "sub"
    (root / "new").write_text("new\n")
    assert read(root, "list_files").text == "new\ns.txt\n"
    assert read(root, "git_show", ref="HEAD", path="s.txt").text == "sub one\nsub two\n"
    assert read(root, "git_show", ref="HEAD", path="a.txt").error
    assert read(root, "git_show", ref="HEAD", path="../a.txt").error
    assert read(root, "read_file", path="s.txt").blob == git(repo, "rev-parse", "HEAD:sub/s.txt")
    workspace = GitWorkspace(root)
    diffs = (workspace.diff("HEAD~2").text, workspace.diff("HEAD~2", "HEAD").text)
    for text in (*diffs, read(root, "git_log").text):
        assert CANARY not in text
    assert all("diff --git a/s.txt b/s.txt" in text for text in diffs)
    assert "+new" in diffs[0]
    assert workspace.describe().dirty
    (root / "new").unlink()
    assert not workspace.describe().dirty


def test_linked_worktrees_and_submodules_are_repositories(repo: Path, tmp_path: Path) -> None:
    git(repo, "worktree", "add", "-q", "-b", "other", str(tmp_path / "tree"), "HEAD^")
    tree = tmp_path / "tree"
    assert read(tree, "read_file", path="a.txt").blob == git(repo, "rev-parse", "HEAD^:a.txt")
    assert GitWorkspace(tree).describe().commit == git(repo, "rev-parse", "other")
    assert read(tree, "read_file", path=".git").error
    outer = tmp_path / "outer"
    outer.mkdir()
    git(outer, "init", "-q")
    git(outer, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(repo), "mod")
    git(outer, "commit", "-qm", "With a submodule")
    module_root = outer / "mod"
    assert read(module_root, "git_show", ref="HEAD", path="a.txt").text == "one\ntwo\n"
    assert not GitWorkspace(module_root).describe().dirty
    assert "mod/a.txt" in read(outer, "list_files").text
    assert read(outer, "list_files", directory="mod/sub").text == "mod/sub/s.txt\n"
    assert "is a submodule" in read(outer, "git_show", ref="HEAD", path="mod").text
    assert GitWorkspace(outer).describe().dirty
    assert GitWorkspace(outer).diff("HEAD").text == "[no difference]"


@pytest.mark.parametrize("how", ["gitdir file", "link", "commondir"])
def test_links_that_lead_round_in_a_circle_are_no_repository(tmp_path: Path, how: str) -> None:
    (tmp_path / "loop").symlink_to("loop")
    if how == "gitdir file":
        (tmp_path / ".git").write_text("gitdir: loop/x\n")
    elif how == "link":
        (tmp_path / ".git").symlink_to(".git")
    else:
        (tmp_path / ".git").mkdir()
        (tmp_path / ".git/HEAD").write_text("ref: refs/heads/main\n")
        (tmp_path / ".git/commondir").write_text("../loop/x\n")
    assert "is no git repository" in read(tmp_path, "git_log").text


@pytest.mark.parametrize("how", ["gitdir file", "link", "commondir", "forged worktree"])
def test_a_git_file_cannot_borrow_somebody_elses_repository(
    repo: Path, tmp_path: Path, how: str
) -> None:
    thief = tmp_path / "thief"
    thief.mkdir()
    if how == "gitdir file":
        (thief / ".git").write_text(f"gitdir: {repo}/.git\n")
    elif how == "link":
        (thief / ".git").symlink_to(repo / ".git")
    else:
        folder = thief / (".git" if how == "commondir" else "fake/worktrees/x")
        folder.mkdir(parents=True)
        (folder / "HEAD").write_text("ref: refs/heads/main\n")
        (folder / "commondir").write_text(f"{repo}/.git\n")
        if how == "forged worktree":
            (folder / "gitdir").write_text(f"{thief}/.git\n")
            (thief / ".git").write_text(f"gitdir: {folder}\n")
    answer = read(thief, "git_show", ref="HEAD", path="a.txt")
    assert answer.error
    assert "does not point back" in answer.text


def test_a_bare_repository_or_a_missing_git_is_no_git(repo: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare.git"
    git(tmp_path, "clone", "-q", "--bare", str(repo), str(bare))
    assert "not in the work tree" in read(bare, "git_log").text
    workspace = GitWorkspace(repo, git="/nonexistent/git")
    assert "git is not installed" in workspace.read("git_log", {}).text
    assert workspace.read("read_file", {"path": "a.txt"}).text == "one\ntwo\n"
    assert "config" not in workspace.read("list_files", {}).text
    assert workspace.describe().tree


def test_a_history_that_cannot_be_read_is_not_no_history(repo: Path, tmp_path: Path) -> None:
    """Only where no `.git` is there may finished work be judged without its change."""
    with pytest.raises(NoInput, match=r"(?m)^git: not found$") as missing:
        GitWorkspace(repo / "sub", git="/nonexistent/git").default_base()
    assert f"{repo}/.git" in missing.value.hint
    (repo / ".git" / "config").write_text("[broken")
    with pytest.raises(BadData, match="cannot read it"):
        GitWorkspace(repo).default_base()
    for number, content in enumerate([None, "gitdir: /nonexistent\n"]):
        root = tmp_path / str(number)
        root.mkdir()
        with pytest.raises(Misuse, match="not in the work tree of a git repository"):
            GitWorkspace(root).default_base()
        (root / ".git").mkdir() if content is None else (root / ".git").write_text(content)
        with pytest.raises(BadData, match=f"{root}/.git: is no git repository and names none"):
            GitWorkspace(root).default_base()


def test_a_git_directory_under_another_name_is_neither_read_nor_listed(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "--separate-git-dir=store", ".")
    (tmp_path / "a").touch()
    assert read(tmp_path, "list_files").text == "a\n"
    assert "git's own files" in read(tmp_path, "read_file", path="store/config").text
    assert "store" not in GitWorkspace(tmp_path).diff(EMPTY_TREE["sha1"]).text


# --- borrowing -------------------------------------------------------------------------------------------


@pytest.fixture
def thief(tmp_path: Path) -> Path:
    """A repository with one commit, beside `repo`, of which it is to show nothing."""
    root = tmp_path / "thief"
    root.mkdir()
    git(root, "init", "-q")
    (root / "own.txt").write_text("own\n")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "Own")
    return root


def borrow_by_alternates(objects: Path, victim: Path) -> None:
    (objects / "info").mkdir(exist_ok=True)
    (objects / "info" / "alternates").write_text(f"# none\n\n{victim}\n")


def borrow_by_a_linked_directory(objects: Path, victim: Path) -> None:
    shutil.rmtree(objects)
    objects.symlink_to(victim)


def borrow_by_a_linked_pack_directory(objects: Path, victim: Path) -> None:
    git(victim, "repack", "-adq")
    shutil.rmtree(objects / "pack")
    (objects / "pack").symlink_to(victim / "pack")


def borrow_by_linked_packs(objects: Path, victim: Path) -> None:
    git(victim, "repack", "-adq")
    for path in (victim / "pack").iterdir():
        (objects / "pack" / path.name).symlink_to(path)


def borrow_by_linked_fan_outs(objects: Path, victim: Path) -> None:
    for folder in victim.glob("[0-9a-f][0-9a-f]"):
        if not (objects / folder.name).exists():
            (objects / folder.name).symlink_to(folder)


def borrow_by_linked_objects(objects: Path, victim: Path) -> None:
    for path in victim.glob("[0-9a-f][0-9a-f]/*"):
        (objects / path.parent.name).mkdir(exist_ok=True)
        (objects / path.parent.name / path.name).symlink_to(path)


def borrow_by_a_relative_link(objects: Path, victim: Path) -> None:
    shutil.rmtree(objects)
    objects.symlink_to(os.path.relpath(victim, objects.parent))


BORROWING: dict[str, Callable[[Path, Path], None]] = {
    "alternates": borrow_by_alternates,
    "a linked directory": borrow_by_a_linked_directory,
    "a relative link": borrow_by_a_relative_link,
    "a linked pack directory": borrow_by_a_linked_pack_directory,
    "linked packs": borrow_by_linked_packs,
    "linked fan-outs": borrow_by_linked_fan_outs,
    "linked objects": borrow_by_linked_objects,
}


@pytest.mark.parametrize("how", BORROWING)
def test_a_repository_cannot_borrow_somebody_elses_objects(
    repo: Path, thief: Path, how: str
) -> None:
    (repo / "a.txt").write_text(f"{CANARY}\n")
    git(repo, "commit", "-qam", CANARY)
    wanted = git(repo, "rev-parse", "HEAD")
    before = GitWorkspace(thief)
    BORROWING[how](thief / ".git" / "objects", repo / ".git" / "objects")
    assert CANARY in git(thief, "show", wanted), "the trap is not armed: git itself borrows nothing"
    # Also where it came to borrow after it was found to be usable.
    for workspace in (GitWorkspace(thief), before):
        for tool, arguments in (
            ("git_show", {"ref": wanted, "path": "a.txt"}),
            ("read_diff_between_refs", {"ref1": f"{wanted}^", "ref2": wanted}),
            ("git_log", {}),
        ):
            answer = workspace.read(tool, arguments)
            assert answer.error
            assert CANARY not in answer.text
            assert f"{thief}/.git/objects" in answer.text
        assert workspace.diff(f"{wanted}^", wanted).error
    with pytest.raises(BadData, match=r"expected a git repository: .*/objects"):
        GitWorkspace(thief).resolve_ref(wanted)
    assert read(thief, "read_file", path="own.txt") == ReadResult("own\n", (1, 1))
    assert read(thief, "list_files").text == "own.txt\n"


def test_a_linked_worktree_cannot_borrow_either(repo: Path, thief: Path, tmp_path: Path) -> None:
    git(thief, "worktree", "add", "-q", str(tmp_path / "tree"))
    borrow_by_alternates(thief / ".git" / "objects", repo / ".git" / "objects")
    answer = read(tmp_path / "tree", "git_show", ref=git(repo, "rev-parse", "HEAD"), path="a.txt")
    alternates = thief / ".git/objects/info/alternates"
    assert answer.text == f"error: a.txt: {alternates}: borrows objects, which are not read"


@pytest.mark.parametrize(
    "name",
    [
        *("HEAD", "config", "index", "refs", "packed-refs", "shallow", "info", "info/exclude"),
        *("logs", "logs/HEAD", "logs/refs"),
    ],
)
def test_a_link_that_leads_out_of_the_git_directory_is_not_followed(
    repo: Path, thief: Path, name: str
) -> None:
    for root in (repo, thief):
        git(root, "pack-refs")
        (root / ".git" / "shallow").touch()
    place = thief / ".git" / name
    if place.is_dir():
        shutil.rmtree(place)
    else:
        place.unlink()
    place.symlink_to(repo / ".git" / name)
    answer = read(thief, "git_log")
    assert answer.error
    assert "is a link that leads out of the repository" in answer.text
    assert read(thief, "read_file", path="own.txt").text == "own\n"


def test_a_link_that_stays_in_the_git_directory_is_followed(thief: Path) -> None:
    (thief / ".git" / "HEAD").unlink()
    (thief / ".git" / "HEAD").symlink_to("refs/heads/main")
    (thief / ".git" / "objects" / "info" / "alternates").touch()
    assert read(thief, "git_show", ref="HEAD", path="own.txt").text == "own\n"


def test_more_files_of_objects_than_are_looked_through_are_refused(thief: Path) -> None:
    folder = thief / ".git"
    assert borrowed(folder, folder, files_max=100) is None
    assert "more than 3 files of objects" in str(borrowed(folder, folder, files_max=3))


def test_alternates_that_are_no_file_are_not_waited_for(thief: Path) -> None:
    os.mkfifo(thief / ".git" / "objects" / "info" / "alternates")
    assert "borrows objects" in read(thief, "git_log").text


def test_a_clone_that_borrows_can_be_judged_once_its_objects_are_its_own(
    repo: Path, tmp_path: Path
) -> None:
    git(tmp_path, "clone", "-q", "--shared", str(repo), "clone")
    clone = tmp_path / "clone"
    assert "borrows objects" in read(clone, "git_log").text
    git(clone, "repack", "-adq")
    (clone / ".git" / "objects" / "info" / "alternates").unlink()
    assert read(clone, "git_log").text == read(repo, "git_log").text


@pytest.mark.parametrize("defect", ["borrows", "broken config", "no git"])
def test_a_git_directory_that_is_not_usable_is_still_not_shown(tmp_path: Path, defect: str) -> None:
    git(tmp_path, "init", "-q", "--separate-git-dir=store", ".")
    (tmp_path / "a").touch()
    if defect == "borrows":
        (tmp_path / "store/objects/info/alternates").write_text("/nonexistent\n")
    elif defect == "broken config":
        (tmp_path / "store/config").write_text(f"[{CANARY}")
    workspace = GitWorkspace(tmp_path, git="/nonexistent/git" if defect == "no git" else None)
    assert workspace.read("git_log", {}).error
    assert "git's own files" in workspace.read("read_file", {"path": "store/config"}).text
    assert workspace.read("list_files", {}).text == "a\n"


def test_a_git_directory_that_is_not_utf_8_is_named_in_text(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / ".git").rename(tmp_path / os.fsdecode(b"\xff"))
    (tmp_path / ".git").write_bytes(b"gitdir: \xff\n")
    (tmp_path / os.fsdecode(b"\xff") / "config").write_text("[broken")
    answer = read(tmp_path, "git_log")
    assert '/\\xff/config": git cannot read it' in answer.text


# --- attacks ---------------------------------------------------------------------------------------------


def test_nothing_that_a_repository_configures_runs(repo: Path, tmp_path: Path) -> None:
    mark = tmp_path / "it-ran"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\necho $0 $@ >> {mark}\ncat 2>/dev/null\n")
    program.chmod(0o755)
    names = (
        *("core.fsmonitor", "core.pager", "core.editor", "core.sshCommand", "diff.external"),
        *("diff.evil.textconv", "diff.evil.command", "filter.evil.clean", "filter.evil.smudge"),
        *(
            "filter.evil.process",
            "gpg.program",
            "credential.helper",
            "core.askPass",
            "uploadpack.packObjectsHook",
        ),
        *(
            "remote.origin.uploadpack",
            "merge.evil.driver",
            "diff.guitool",
            "core.alternateRefsCommand",
        ),
    )
    for name in names:
        git(repo, "config", name, str(program))
    for verb in ("log", "show", "diff", "status", "rev-parse", "ls-files", "ls-tree", "cat-file"):
        git(repo, "config", f"alias.{verb}", f"!{program}")
    for name, value in (
        ("filter.evil.required", "true"),
        ("log.showSignature", "true"),
        ("core.hooksPath", str(tmp_path / "hooks")),
        ("extensions.partialClone", "origin"),
        ("remote.origin.url", f"ext::{program}"),
        ("remote.origin.promisor", "true"),
        ("protocol.ext.allow", "always"),
        ("core.attributesFile", str(repo / ".gitattributes")),
        ("include.path", str(tmp_path / "outside")),
        ("core.worktree", "/etc"),
    ):
        git(repo, "config", name, value)
    (tmp_path / "hooks").mkdir()
    for folder in (tmp_path / "hooks", repo / ".git" / "hooks"):
        for hook in (
            "fsmonitor-watchman",
            "post-index-change",
            "reference-transaction",
            "pre-auto-gc",
        ):
            shutil.copy(program, folder / hook)
    for attributes in (repo / ".gitattributes", repo / ".git" / "info" / "attributes"):
        attributes.parent.mkdir(exist_ok=True)
        attributes.write_text("* filter=evil diff=evil merge=evil\n")
    (repo / "a.txt").write_text("one\ntwo\nthree\n")
    mark.unlink(missing_ok=True)
    texts = everything(repo)
    workspace = GitWorkspace(repo)
    workspace.read("git_show", {"ref": "0123456789" * 4, "path": "a.txt"})
    assert not mark.exists()
    assert "\n+three\n" in texts[-2]
    kept = {"PATH": os.environ["PATH"]}
    subprocess.run(
        [GIT, "--work-tree=.", "status"], cwd=repo, env=kept, check=False, capture_output=True
    )
    assert mark.exists(), "the trap is not armed: git itself did not run it"


def test_of_the_configuration_just_the_documented_values_are_read(
    repo: Path, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    spy = tmp_path / "spy"
    spy.write_text(f'#!/bin/sh\necho "$GIT_DIR" "$@" >> {log}\nexec {GIT} "$@"\n')
    spy.chmod(0o755)
    outer = tmp_path / "outer"
    outer.mkdir()
    git(outer, "init", "-q")
    git(outer, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(repo), "mod")
    for root in (repo, outer / "mod"):
        workspace = GitWorkspace(root, git=str(spy))
        workspace.describe()
        for tool, arguments in EVERY_READ:
            assert not workspace.read(tool, arguments).error
        assert not workspace.diff("HEAD^").error
    asked = set()
    for line in log.read_text().splitlines():
        git_dir, verb, *rest = line.split(" ")
        if verb == "config":
            assert git_dir == os.devnull
            assert "--no-includes" in rest
            asked.add(rest[-1])
        else:
            assert Path(git_dir).name.startswith("causebook-git-")
    assert asked == {"extensions.objectformat", "extensions.refstorage", "core.worktree"}
    assert all(f"\n    {name} " in str(git_module.__doc__) for name in asked)


def test_the_environment_does_not_steer_git(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = tmp_path / "it-ran"
    hostile = tmp_path / "config"
    hostile.write_text(f'[core]\n\tfsmonitor = "touch {mark}"\n')
    for name, value in {
        "GIT_DIR": "/nonexistent",
        "GIT_WORK_TREE": "/etc",
        "GIT_INDEX_FILE": "/nonexistent",
        "GIT_CONFIG_GLOBAL": str(hostile),
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "core.fsmonitor",
        "GIT_CONFIG_VALUE_0": f"touch {mark}",
        "GIT_EXTERNAL_DIFF": f"touch {mark}",
        "GIT_TRACE": str(mark),
        "GIT_EXEC_PATH": "/nonexistent",
        "GIT_NAMESPACE": "x",
    }.items():
        monkeypatch.setenv(name, value)
    assert everything(repo)
    assert not mark.exists()


def test_nothing_is_written_to_the_repository(repo: Path) -> None:
    os.utime(repo / "a.txt", (1, 1))
    (repo / "new").write_text("new\n")
    before = snapshot(repo)
    everything(repo)
    assert snapshot(repo) == before


def test_attributes_cannot_hide_a_change_as_binary(repo: Path) -> None:
    (repo / ".gitattributes").write_text("* binary\n* -diff\n")
    (repo / ".git" / "info").mkdir(exist_ok=True)
    (repo / ".git" / "info" / "attributes").write_text("* -diff\n")
    (repo / "a.txt").write_text("one\nevil\n")
    assert "\n+evil\n" in GitWorkspace(repo).diff("HEAD").text
    git(repo, "add", "-A")
    git(repo, "commit", "-qm", "Hide")
    assert "\n+evil\n" in read(repo, "read_diff_between_refs", ref1="HEAD^", ref2="HEAD").text


def test_replaced_objects_do_not_show_another_history(repo: Path) -> None:
    (repo / "a.txt").write_text("forged\n")
    git(repo, "commit", "-qam", "Forged")
    git(repo, "replace", "HEAD^", "HEAD")
    assert read(repo, "git_show", ref="HEAD^", path="a.txt").text == "one\ntwo\n"


def forge(repo: Path, blob: str, content: bytes, kind: str = "blob") -> None:
    """Write other content under the id of a blob: git reads it and sees nothing."""
    path = repo / ".git" / "objects" / blob[:2] / blob[2:]
    path.chmod(0o644)
    path.write_bytes(zlib.compress(f"{kind} {len(content)}\0".encode() + content))


@pytest.mark.parametrize("content", [b"uno\n", b"longer than it was\n", b""])
def test_a_forged_blob_is_not_shown_under_the_id_of_the_genuine_one(
    repo: Path, content: bytes
) -> None:
    blob = git(repo, "rev-parse", "HEAD^:a.txt")
    forge(repo, blob, content)
    assert git(repo, "show", "HEAD^:a.txt") == content.decode().strip(), "the trap is not armed"
    workspace = GitWorkspace(repo)
    for answer in (
        workspace.read("git_show", {"ref": "HEAD^", "path": "a.txt"}),
        workspace.read("read_diff_between_refs", {"ref1": "HEAD^", "ref2": "HEAD"}),
        workspace.diff("HEAD^"),
    ):
        assert answer.error
        assert (answer.blob, answer.lines) == (None, None)
        assert (
            answer.text
            == f"error: git: object {blob}: is broken or forged: its content has another id"
        )
    assert not workspace.read("git_show", {"ref": "HEAD", "path": "a.txt"}).error


def test_a_forged_blob_is_not_what_a_clean_file_is_compared_as(repo: Path) -> None:
    """The file is what HEAD says; git would take its side of the difference from the forged object."""
    forge(repo, git(repo, "rev-parse", "HEAD:a.txt"), b"harmless\n")
    assert GitWorkspace(repo).diff("HEAD^").error
    assert read(repo, "read_file", path="a.txt").text == "one\ntwo\n"


def test_an_object_of_another_kind_or_none_is_not_taken_for_a_blob(repo: Path) -> None:
    blob = git(repo, "rev-parse", "HEAD^:a.txt")
    forge(repo, blob, b"one\n", "tag")
    assert "error: git: " in read(repo, "git_show", ref="HEAD^", path="a.txt").text
    (repo / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    assert read(repo, "read_diff_between_refs", ref1="HEAD^", ref2="HEAD").error


def test_a_commit_graph_does_not_say_who_a_parent_is(repo: Path) -> None:
    (repo / "a.txt").write_text("three\n")
    git(repo, "commit", "-qam", "Third")
    parent = git(repo, "rev-parse", "HEAD^")
    git(repo, "commit-graph", "write", "--reachable")
    graph = repo / ".git" / "objects" / "info" / "commit-graph"
    graph.chmod(0o644)
    raw = bytearray(graph.read_bytes())
    tree = bytes.fromhex(git(repo, "rev-parse", "HEAD^{tree}"))
    at = raw.index(tree, raw.index(bytes.fromhex(parent))) + len(tree)
    raw[at : at + 4] = b"\x70\0\0\0"  # no parent
    graph.write_bytes(raw)
    assert git(repo, "log", "--format=%H").count("\n") == 0, "the trap is not armed"
    assert GitWorkspace(repo).default_base() == parent
    assert len(read(repo, "git_log").text.splitlines()) == 3


def test_a_ref_that_never_answers_is_given_up(repo: Path) -> None:
    os.mkfifo(repo / ".git" / "refs" / "heads" / "stuck")
    answer = GitWorkspace(repo, git_seconds_max=3).read("git_show", {"ref": "stuck", "path": "a"})
    assert answer.error
    assert answer.text == "error: git: no answer within 3 seconds"


def test_a_broken_repository_is_an_answer(repo: Path) -> None:
    (repo / ".git" / "index").write_bytes(b"DIRC broken")
    assert read(repo, "list_files").error
    assert read(repo, "read_file", path="a.txt").text == "one\ntwo\n"
    shutil.rmtree(repo / ".git" / "objects")
    (repo / ".git" / "objects").mkdir()
    assert read(repo, "git_log").error
    assert GitWorkspace(repo).diff("HEAD").error
    (repo / ".git" / "config").write_text("[broken")
    assert "cannot read it" in read(repo, "git_log").text


def test_a_shallow_clone_is_read(repo: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{repo}", "shallow")
    shallow = tmp_path / "shallow"
    assert len(read(shallow, "git_log").text.splitlines()) == 1
    assert GitWorkspace(shallow).default_base() == EMPTY_TREE["sha1"]


def test_packed_refs_and_the_reflog_are_read(repo: Path) -> None:
    git(repo, "tag", "v1", "HEAD^")
    git(repo, "pack-refs", "--all")
    first = git(repo, "rev-parse", "HEAD^")
    assert GitWorkspace(repo).resolve_ref("v1") == first
    assert GitWorkspace(repo).resolve_ref("HEAD@{1}") == first
    assert GitWorkspace(repo).resolve_ref(first[:8]) == first


# --- the process -----------------------------------------------------------------------------------------


def test_a_process_that_never_pauses_is_given_up_at_its_deadline(tmp_path: Path) -> None:
    ticks = itertools.count()

    def clock() -> float:
        time.sleep(0.02)  # long enough for the pipe to be filled again
        tick = next(ticks)
        assert tick < 40, "it outlived its deadline"
        return tick

    noise = ["/bin/sh", "-c", "while :; do echo noise >&2; done"]
    with pytest.raises(GitFailure, match="no answer within 10 seconds"):
        run(noise, cwd=tmp_path, env={}, bytes_max=1, seconds_max=10, clock=clock)


def test_what_a_process_leaves_behind_is_killed_at_the_deadline(tmp_path: Path) -> None:
    # The child says so when its parent is gone, and holds the fifo open for as long as it lives.
    os.mkfifo(tmp_path / "alive")
    alive = os.open(tmp_path / "alive", os.O_RDONLY | os.O_NONBLOCK)
    waiting = select.poll()
    waiting.register(alive, select.POLLIN)
    orphan = """(exec 3>alive
        until grep -q ') Z' /proc/$$/stat; do :; done
        echo orphaned >&3
        exec sleep 60) &"""
    asked = itertools.count()

    def clock() -> float:
        if next(asked) == 0:
            return 0.0
        assert waiting.poll(60_000), "nothing was left behind"
        return 99.0

    try:
        with pytest.raises(GitFailure, match="no answer within 1 seconds"):
            run(
                ["/bin/sh", "-c", orphan],
                cwd=tmp_path,
                env={"PATH": os.environ["PATH"]},
                bytes_max=1,
                seconds_max=1,
                clock=clock,
            )
        assert os.read(alive, 100) == b"orphaned\n"
        assert waiting.poll(30_000) == [(alive, select.POLLHUP)], "it was left to run"
    finally:
        os.close(alive)
