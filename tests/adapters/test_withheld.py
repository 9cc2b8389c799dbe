"""No private key and nothing of the ledger reaches a judge: in no read, no difference and no history."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from hypothesis import given
from hypothesis import strategies as st

from causebook.adapters.workspace import GitWorkspace
from causebook.adapters.worktree.limits import LIMITS, Limits
from causebook.adapters.worktree.objects import EMPTY_TREE
from causebook.adapters.worktree.withheld import (
    AHEAD_BYTES,
    GAP_BYTES_MAX,
    KeySearch,
    holds_key,
    without_keys,
)
from causebook.domain.ports import ReadResult

KEY = ed25519.Ed25519PrivateKey.generate()
PEM = KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
BODY = PEM.split(b"\n")[1].decode()
SAID = "[withheld: it holds a private key]"
EMPTY = EMPTY_TREE["sha1"]


def git(where: Path, *arguments: str) -> str:
    options = ("-c", "user.name=x", "-c", "user.email=x@example.com")
    done = subprocess.run(
        ["git", *options, *arguments], cwd=where, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A commit of `a.txt` and of a key, one that replaced the key, and one that took it away."""
    root = tmp_path / "repo"
    (root / "kz").mkdir(parents=True)
    git(root, "init", "-q")
    (root / "a.txt").write_text("one\n")
    (root / "kz" / "root.pem").write_bytes(b"# ours\n" + PEM)
    git(root, "add", "-A")
    git(root, "commit", "-qm", "key")
    (root / "a.txt").write_text("two\n")
    (root / "kz" / "root.pem").write_bytes(b"# ours still\n" + PEM)
    git(root, "commit", "-qam", "other key")
    (root / "kz" / "root.pem").unlink()
    git(root, "commit", "-qam", "no key")
    return root


def withheld(answer: ReadResult) -> None:
    assert answer.error
    assert answer.text.endswith(": withheld: it holds a private key")
    assert (answer.lines, answer.cut, answer.blob) == (None, False, None)


# --- what a private key is -------------------------------------------------------------------------------


def encrypted() -> bytes:
    return KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))


def openssh() -> bytes:
    return KEY.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())


def traditional() -> bytes:
    key = rsa.generate_private_key(65_537, 2_048)
    return key.private_bytes(
        Encoding.PEM, PrivateFormat.TraditionalOpenSSL, BestAvailableEncryption(b"secret")
    )


def pgp() -> bytes:
    head = b"-----BEGIN PGP PRIVATE KEY BLOCK-----\nVersion: 1\nComment: mine\n\n"
    return head + b"lQOYBGVb" * 8 + b"\n-----END PGP PRIVATE KEY BLOCK-----\n"


FORMS: dict[str, Callable[[], bytes]] = {
    "PKCS#8": lambda: PEM,
    "encrypted PKCS#8": encrypted,
    "OpenSSH": openssh,
    "traditional, with headers": traditional,
    "PGP": pgp,
    "a string of JSON": lambda: b'{"k": "' + PEM.replace(b"\n", b"\\n") + b'"}',
    "lines of a program": lambda: b"".join(b'    "%s\\n"\n' % x for x in PEM.splitlines()),
    "one line": lambda: PEM.replace(b"\n", b" "),
    "CRLF": lambda: PEM.replace(b"\n", b"\r\n"),
    "after much else": lambda: b"x" * 70_000 + b"\n" + PEM,
    "without its end": lambda: PEM[:92],
}


@pytest.mark.parametrize("form", FORMS)
def test_a_file_with_a_private_key_is_withheld(tmp_path: Path, form: str) -> None:
    (tmp_path / "notes.txt").write_bytes(b"first\n" + FORMS[form]() + b"last\n")
    workspace = GitWorkspace(tmp_path)
    withheld(workspace.read("read_file", {"path": "notes.txt"}))
    withheld(workspace.read("read_file_lines", {"path": "notes.txt", "start": 1, "end": 1}))
    withheld(workspace.read("read_file_lines", {"path": "notes.txt", "start": 3, "end": 3}))
    assert workspace.read("list_files", {}).text == "notes.txt\n"
    assert "all: 1 files" in workspace.read("summarize_directory", {}).text


@pytest.mark.parametrize(
    "content",
    [
        KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
        b"PEM begins with -----BEGIN PRIVATE KEY-----\n" + b"and goes on with base64. " * 60,
        b"-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----\n" + b"x" * 99,
        b"-----BEGIN CERTIFICATE-----\n" + b"PRIVATE KEY" + b"x" * 99,
        b"-----BEGIN PRIVATE KEY-----" + b". " * GAP_BYTES_MAX + b"x" * 99,
    ],
)
def test_what_holds_no_private_key_is_shown(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a").write_bytes(content)
    assert GitWorkspace(tmp_path).read("read_file", {"path": "a"}).text == content.decode()


@given(before=st.integers(0, 3_000), sizes=st.lists(st.integers(1, 2_000), min_size=1, max_size=9))
def test_a_key_is_found_wherever_the_chunks_fall(before: int, sizes: list[int]) -> None:
    content = b"x" * before + b"\n" + PEM + b"y" * before
    assert len(PEM) < AHEAD_BYTES
    search, at = KeySearch(), 0
    while at < len(content):
        size = sizes[at % len(sizes)]
        search.feed(content[at : at + size])
        at += size
    assert search.found


@pytest.mark.parametrize("chunk_bytes", [1, 7, 64, 4_096])
def test_no_part_of_a_key_is_shown_of_a_file_that_is_not_read_to_its_end(
    tmp_path: Path, chunk_bytes: int
) -> None:
    (tmp_path / "a").write_bytes(b"x\n" * 50 + PEM + b"y\n" * 9_000)
    for size in range(90, 260, 3):
        limits = Limits(read_bytes_max=size, whole_bytes_max=10, chunk_bytes=chunk_bytes)
        answer = GitWorkspace(tmp_path, limits=limits).read("read_file", {"path": "a"})
        assert BODY[:8] not in answer.text
    limits = Limits(scan_bytes_max=150, whole_bytes_max=10, chunk_bytes=chunk_bytes)
    withheld(GitWorkspace(tmp_path, limits=limits).read("read_file", {"path": "a"}))


def test_a_file_full_of_beginnings_is_searched_in_time() -> None:
    assert not holds_key((b"-----BEGIN PRIVATE KEY-----" + b"x" * 31) * 50_000)
    assert not holds_key((b"-----BEGIN PRIVATE KEY-----" + (b"x" * 31 + b" ") * 31) * 2_000)


# --- history ---------------------------------------------------------------------------------------------


def test_a_committed_key_is_withheld_from_git_show(repo: Path) -> None:
    workspace = GitWorkspace(repo)
    for ref in ("HEAD^", "HEAD~2"):
        withheld(workspace.read("git_show", {"ref": ref, "path": "kz/root.pem"}))
    short = GitWorkspace(repo, limits=Limits(read_bytes_max=4))
    withheld(short.read("git_show", {"ref": "HEAD^", "path": "kz/root.pem"}))


@pytest.mark.parametrize(
    ("old", "new", "lines"),
    [
        (EMPTY, "HEAD~2", ["+" + SAID, "+one"]),
        ("HEAD~2", "HEAD^", [" " + SAID, "-one", "+two"]),
        ("HEAD^", "HEAD", ["-" + SAID, "deleted file mode 100644"]),
        ("HEAD", "HEAD~2", ["+" + SAID, "new file mode 100644"]),
    ],
)
def test_a_committed_key_is_withheld_from_a_difference(
    repo: Path, old: str, new: str, lines: list[str]
) -> None:
    answers = [GitWorkspace(repo).diff(old, new)]
    if old != EMPTY:
        asked = {"ref1": old, "ref2": new}
        answers.append(GitWorkspace(repo).read("read_diff_between_refs", asked))
    for answer in answers:
        assert not answer.error
        assert "kz/root.pem" in answer.text
        assert set(lines) <= set(answer.text.split("\n"))
        assert "ours" not in answer.text
        assert BODY not in answer.text


def test_a_rename_does_not_carry_a_key_past(repo: Path) -> None:
    git(repo, "checkout", "-q", "HEAD^")
    text = "".join(f"line {n}\n" for n in range(40))
    (repo / "long").write_text(text + PEM.decode())
    git(repo, "add", "-A")
    git(repo, "commit", "-qm", "a key at the end")
    git(repo, "mv", "long", "longer")
    (repo / "longer").write_text(text + "changed\n" + PEM.decode())
    git(repo, "commit", "-qam", "renamed")
    answer = GitWorkspace(repo).diff("HEAD^", "HEAD")
    assert SAID in answer.text
    assert BODY not in answer.text
    (repo / "longer").write_text(text)
    after = GitWorkspace(repo).diff("HEAD").text
    assert "\n+line 7\n" in after
    assert BODY not in after


def test_a_key_in_the_subject_of_a_commit_is_withheld(repo: Path) -> None:
    git(repo, "commit", "-q", "--allow-empty", "-m", PEM.decode())
    lines = GitWorkspace(repo).read("git_log", {}).text.splitlines()
    assert lines[0] == SAID
    assert lines[1].endswith(": no key")
    assert without_keys(b"a line") == b"a line"


# --- the brief -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("below", ["", "sub"])
def test_a_key_that_is_not_committed_is_withheld_from_the_brief(repo: Path, below: str) -> None:
    root = repo / below
    (root / "k2").mkdir(parents=True)
    (root / "k2" / "engine.pem").write_bytes(PEM)
    (root / "fresh").write_text("fresh = 1\n")
    workspace = GitWorkspace(root)
    state, answer = workspace.describe(), workspace.diff("HEAD^")
    assert state.dirty
    assert f"\n+{SAID}\n" in answer.text
    assert "\n+fresh = 1\n" in answer.text
    assert "k2/engine.pem" in answer.text
    assert BODY not in answer.text
    # A key counts: another one is another tree.
    (root / "k2" / "engine.pem").write_bytes(PEM + b"\n")
    assert GitWorkspace(root).describe().tree != state.tree
    assert GitWorkspace(root).diff("HEAD^").text != answer.text


def test_what_was_staged_or_made_for_a_brief_leaves_no_trace(repo: Path) -> None:
    (repo / "engine.pem").write_bytes(PEM)
    before = sorted((p, p.stat().st_mtime_ns) for p in (repo / ".git").rglob("*"))
    assert SAID in GitWorkspace(repo).diff("HEAD~2").text
    assert sorted((p, p.stat().st_mtime_ns) for p in (repo / ".git").rglob("*")) == before


# --- private files, tracked ------------------------------------------------------------------------------


@pytest.mark.parametrize("below", ["", "sub"])
def test_a_private_file_that_is_committed_is_not_there_now_nor_in_history(
    repo: Path, below: str
) -> None:
    root = repo / below
    root.mkdir(exist_ok=True)
    (root / "a").write_text("of the work\n")
    (root / "ledger.db").write_text("first content\n")
    (root / "keys").mkdir()
    (root / "keys" / "note").write_text("first content\n")
    git(repo, "add", "-A")
    git(repo, "commit", "-qm", "all of it")
    private = [root / "ledger.db", root / "keys"]
    workspace = GitWorkspace(root, private=private)
    assert not workspace.describe().dirty
    for path in ("ledger.db", "keys/note", "./keys//note"):
        answer = workspace.read("git_show", {"ref": "HEAD", "path": path})
        assert answer.error
        assert "private: " in answer.text
    (root / "ledger.db").write_text("second content\n")
    (root / "ledger.db-wal").write_text("second content\n")
    shutil.rmtree(root / "keys")
    git(repo, "add", "ledger.db" if not below else f"{below}/ledger.db")
    workspace = GitWorkspace(root, private=[*private, root / "ledger.db-wal"])
    state = workspace.describe()
    assert (state.dirty, state.tree) == (False, None)
    assert workspace.diff("HEAD").text == "[no difference]"
    shown = workspace.diff("HEAD^").text
    assert "\n+of the work\n" in shown
    assert "content" not in shown
    assert "ledger" not in shown
    assert "ledger" not in workspace.read("list_files", {}).text
    asked = {"ref1": "HEAD^", "ref2": "HEAD"}
    assert "content" not in workspace.read("read_diff_between_refs", asked).text
    (root / "a").write_text("changed\n")
    assert workspace.describe().dirty
    assert GitWorkspace(root, limits=LIMITS).describe().dirty
