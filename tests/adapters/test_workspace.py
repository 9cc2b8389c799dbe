"""A workspace answers what lies below its root, says when it cuts, and never raises for bad input."""

from __future__ import annotations

import hashlib
import os
import socket
import tempfile
import threading
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from causebook.adapters.workspace import GitWorkspace
from causebook.adapters.worktree.limits import LIMITS, Limits
from causebook.adapters.worktree.text import NOT_UTF8
from causebook.domain.errors import BadData, Denied, Misuse, NoInput
from causebook.domain.ports import ReadResult, Workspace
from causebook.domain.tools import READ_TOOLS

CANARY = "canary-5b1f0c6e-outside-the-root"
READ_BYTES_MAX = LIMITS.read_bytes_max


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root without git, beside a directory with a file that no read may show."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text(CANARY + "\n")
    inside = tmp_path / "root"
    inside.mkdir()
    return inside


def read(root: Path, tool: str, limits: Limits = LIMITS, **arguments: Any) -> ReadResult:
    workspace: Workspace = GitWorkspace(root, limits=limits)
    answer = workspace.read(tool, arguments)
    answer.text.encode()
    return answer


def refused(answer: ReadResult, words: str) -> None:
    assert answer.error
    assert words in answer.text
    assert (answer.lines, answer.cut, answer.blob) == (None, False, None)
    assert CANARY not in answer.text


# --- confinement -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "target",
    ["../outside/secret.txt", "{outside}/secret.txt", "/proc/self/root{outside}/secret.txt"],
)
def test_a_link_out_of_the_root_is_refused(root: Path, target: str) -> None:
    (root / "link").symlink_to(target.format(outside=root.parent / "outside"))
    refused(read(root, "read_file", path="link"), "outside the workspace root")


def test_a_directory_link_out_of_the_root_is_refused_by_every_tool(root: Path) -> None:
    (root / "door").symlink_to("../outside")
    for tool in ("list_files", "summarize_directory"):
        refused(read(root, tool, directory="door"), "outside the workspace root")
    refused(read(root, "read_file", path="door/secret.txt"), "outside the workspace root")
    assert "secret" not in read(root, "list_files").text


def test_a_chain_of_links_out_of_the_root_is_refused(root: Path) -> None:
    (root / "a").mkdir()
    (root / "a" / "up").symlink_to("..")
    (root / "out").symlink_to("a/up/../outside/secret.txt")
    refused(read(root, "read_file", path="out"), "outside the workspace root")


@pytest.mark.parametrize("path", ["../outside/secret.txt", "a/../../outside/secret.txt", ".."])
def test_dot_dot_above_the_root_is_refused(root: Path, path: str) -> None:
    (root / "a").mkdir()
    refused(read(root, "read_file", path=path), "outside the workspace root")


def test_an_absolute_path_outside_is_refused_and_one_inside_is_read(root: Path) -> None:
    (root / "a.txt").write_text("in\n")
    outside = str(root.parent / "outside/secret.txt")
    refused(read(root, "read_file", path=outside), "outside the workspace root")
    refused(read(root, "read_file", path=f"{root}x"), "outside the workspace root")
    assert read(root, "read_file", path=f"{root}/a.txt").text == "in\n"


@pytest.mark.parametrize("path", ["/proc/self/environ", "/dev/zero", "/dev/tty", "/proc/self/fd/0"])
def test_the_system_is_outside(root: Path, path: str) -> None:
    refused(read(root, "read_file", path=path), "outside the workspace root")


def test_links_that_stay_below_the_root_are_followed(root: Path) -> None:
    (root / "a").mkdir()
    (root / "a" / "file").write_text("here\n")
    (root / "relative").symlink_to("a/../a/file")
    (root / "absolute").symlink_to(root / "a")
    assert read(root, "read_file", path="relative").text == "here\n"
    assert read(root, "read_file", path="absolute/file").text == "here\n"
    assert read(root, "list_files", directory="absolute").text == "a/file\n"


def test_a_root_named_through_a_link_takes_paths_under_either_name(root: Path) -> None:
    (root / "a").write_text("here\n")
    alias = root.parent / "alias"
    alias.symlink_to(root)
    assert read(alias, "read_file", path=f"{alias}/a").text == "here\n"
    assert read(alias, "read_file", path=f"{root}/a").text == "here\n"


def test_a_loop_of_links_is_refused(root: Path) -> None:
    (root / "a").symlink_to("b")
    (root / "b").symlink_to("a")
    refused(read(root, "read_file", path="a"), "too many links")


@pytest.mark.parametrize("kind", ["file", "directory"])
def test_a_link_swapped_in_between_check_and_open_shows_nothing(root: Path, kind: str) -> None:
    outside = root.parent / "outside"
    good, bad = root / "good", root / "bad"
    if kind == "file":
        good.write_text("harmless\n")
        bad.symlink_to(outside / "secret.txt")
        path = "flip"
    else:
        good.mkdir()
        (good / "secret.txt").write_text("harmless\n")
        bad.symlink_to(outside)
        path = "flip/secret.txt"
    good.rename(root / "flip")
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            (root / "flip").rename(good)
            bad.rename(root / "flip")
            (root / "flip").rename(bad)
            good.rename(root / "flip")

    attacker = threading.Thread(target=swap)
    attacker.start()
    try:
        workspace = GitWorkspace(root)
        texts = {workspace.read("read_file", {"path": path}).text for _ in range(1_500)}
    finally:
        stop.set()
        attacker.join()
    assert workspace.read("read_file", {"path": path}).text == "harmless\n"
    assert not any(CANARY in text for text in texts)


@pytest.mark.parametrize(
    "path", [".git/config", ".git", "sub/.git/config", ".GIT/config", "link/config"]
)
def test_the_git_directory_is_not_read(root: Path, path: str) -> None:
    for folder in (root / ".git", root / "sub" / ".git"):
        folder.mkdir(parents=True)
        (folder / "config").write_text(CANARY)
    (root / "link").symlink_to(".git")
    refused(read(root, "read_file", path=path), "git's own files" if ".GIT" not in path else "")
    assert read(root, "list_files").text == "link\n"


def test_a_private_directory_is_neither_read_nor_listed_nor_in_the_digest(root: Path) -> None:
    (root / "a").write_text("x\n")
    bare = GitWorkspace(root).describe()
    (root / "keys").mkdir()
    (root / "keys" / "secret").write_text(CANARY)
    (root / "door").symlink_to("keys")
    workspace = GitWorkspace(root, private=[root / "keys", root / "none"])
    for path in ("keys/secret", "door/secret", f"{root}/keys/secret"):
        refused(workspace.read("read_file", {"path": path}), "private: ")
    for tool in ("list_files", "summarize_directory"):
        refused(workspace.read(tool, {"directory": "keys"}), "private: ")
    assert workspace.read("list_files", {}).text == "a\ndoor\n"
    assert "cannot be listed" not in workspace.read("summarize_directory", {}).text
    (root / "door").unlink()
    assert workspace.describe() == bare


def test_a_private_file_that_appears_later_is_not_there_either(root: Path) -> None:
    """What SQLite writes beside a ledger comes and goes while judges read."""
    (root / "a").write_text("x\n")
    (root / "data").mkdir()
    bare = GitWorkspace(root).describe()
    names = ["ledger.db", "ledger.db-wal", "ledger.db.locks"]
    workspace = GitWorkspace(root, private=[root / "data" / name for name in names])
    for name in names[:2]:
        (root / "data" / name).write_text(CANARY)
    (root / "data" / names[2]).mkdir()
    (root / "data" / names[2] / "x.lock").write_text(CANARY)
    (root / "data" / "door").symlink_to("ledger.db")
    for path in (
        "ledger.db",
        "ledger.db-wal",
        "ledger.db.locks/x.lock",
        "door",
        "../data/ledger.db",
    ):
        refused(workspace.read("read_file", {"path": f"data/{path}"}), "private: ")
    assert workspace.read("list_files", {}).text == "a\ndata/door\n"
    assert "all: 2 files" in workspace.read("summarize_directory", {}).text
    (root / "data" / "door").unlink()
    assert workspace.describe() == bare
    (root / "data" / "ledger.db2").write_text("of the work\n")
    assert workspace.read("read_file", {"path": "data/ledger.db2"}).text == "of the work\n"


LINKS = {"door": "../outside", "key": "../outside/secret.txt", "up": "..", "here": ".", "root": "/"}
PARTS = st.sampled_from(
    ["..", ".", "", "a", "b.txt", "outside", "secret.txt", "proc/self/cwd", *LINKS]
)


@pytest.fixture(scope="module")
def maze() -> Iterator[tuple[GitWorkspace, str]]:
    with tempfile.TemporaryDirectory() as name:
        base = Path(name)
        for folder in ("outside", "root/a"):
            (base / folder).mkdir(parents=True)
        (base / "outside/secret.txt").write_text(CANARY)
        (base / "root/a/b.txt").write_text("inside\n")
        for where in ("root", "root/a"):
            for link, target in LINKS.items():
                (base / where / link).symlink_to(target)
        yield GitWorkspace(base / "root"), str(base)


@given(
    parts=st.lists(PARTS, max_size=9), start=st.sampled_from(["", "/", "{base}/", "{base}/root/"])
)
def test_no_path_made_of_links_and_dots_leaves_the_root(
    maze: tuple[GitWorkspace, str], parts: list[str], start: str
) -> None:
    workspace, base = maze
    path = start.format(base=base) + "/".join(parts)
    for tool, name in (("read_file", "path"), ("list_files", "directory")):
        assert CANARY not in workspace.read(tool, {name: path}).text


@given(path=st.text(st.characters(), max_size=60))
def test_no_string_at_all_makes_a_read_raise(maze: tuple[GitWorkspace, str], path: str) -> None:
    workspace, _ = maze
    for tool in READ_TOOLS.values():
        arguments = {a.name: path if a.kind == "string" else 1 for a in tool.arguments}
        answer = workspace.read(tool.name, arguments)
        assert CANARY not in answer.text
        answer.text.encode()


# --- bad input -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("a\0b", "null byte"),
        ("a\udcff", "not Unicode text"),
        ("x" * 4_097, "longer than 4,096 bytes"),
        ("x" * 300, "too long"),
        ("/".join("a" * 200), "no such file"),
        ("missing", "no such file"),
        ("", "is a directory"),
        ("file/below", "not a directory"),
        ("file/..", "not a directory"),
    ],
)
def test_a_bad_path_is_an_answer(root: Path, path: str, words: str) -> None:
    (root / "file").write_text("x")
    refused(read(root, "read_file", path=path), words)


def test_arguments_that_do_not_fit_are_an_answer(root: Path) -> None:
    refused(read(root, "read_file"), "path: required")
    refused(read(root, "read_file", path=3), "expected a string")
    refused(read(root, "read_file_lines", path="a", start=0, end=1), "at least 1")
    refused(read(root, "write_file", path="a"), "no such read tool")


def test_a_message_quotes_no_control_character(root: Path) -> None:
    answer = read(root, "read_file", path="a\x1b[2J\nb")
    refused(answer, "no such file")
    assert answer.text.isprintable()


def test_special_files_never_block_and_are_refused(root: Path) -> None:
    os.mkfifo(root / "fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(root / "socket"))
        for name in ("fifo", "socket"):
            refused(read(root, "read_file", path=name), "not a regular file")
    assert read(root, "list_files").text == "[no files]"
    assert GitWorkspace(root).describe().tree == hashlib.sha256().hexdigest()


def test_a_file_that_may_not_be_read_is_an_answer() -> None:
    # Not below pytest's own folder, which nobody but its owner may enter.
    with tempfile.TemporaryDirectory() as made:
        root = Path(made)
        root.chmod(0o755)
        (root / "shut").write_text(CANARY)
        (root / "shut").chmod(0)
        (root / "open").write_text("here\n")
        workspace = GitWorkspace(root)
        with as_nobody():
            assert workspace.read("read_file", {"path": "open"}).text == "here\n"
            refused(workspace.read("read_file", {"path": "shut"}), "permission denied")


@contextmanager
def as_nobody() -> Iterator[None]:
    """Modes stop nothing for root, so it is somebody else meanwhile."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_a_file_that_vanishes_and_comes_back_is_read_or_missed(root: Path) -> None:
    stop = threading.Event()

    def blink() -> None:
        while not stop.is_set():
            (root / "a").write_text("here\n")
            (root / "a").unlink()

    blinker = threading.Thread(target=blink)
    blinker.start()
    try:
        workspace = GitWorkspace(root)
        for _ in range(300):
            answer = workspace.read("read_file", {"path": "a"})
            assert answer.text in ("here\n", "") or "no such file" in answer.text
            assert workspace.read("summarize_directory", {}).error is False
            workspace.describe()
    finally:
        stop.set()
        blinker.join()


# --- text, lines, limits ---------------------------------------------------------------------------------


def test_a_file_is_answered_as_it_is(root: Path) -> None:
    (root / "a").write_bytes(b"\xef\xbb\xbfone\r\ntwo\nthree")
    answer = read(root, "read_file", path="a")
    assert answer == ReadResult("\ufeffone\r\ntwo\nthree", (1, 3))


def test_an_empty_file_has_no_lines(root: Path) -> None:
    (root / "a").touch()
    assert read(root, "read_file", path="a") == ReadResult("")
    refused(read(root, "read_file_lines", path="a", start=1, end=1), "has 0 lines")


def test_only_a_line_feed_ends_a_line(root: Path) -> None:
    (root / "a").write_text("a\rb\u2028c\x85d\fe\vf\r\nlast\n", newline="")
    assert read(root, "read_file", path="a").lines == (1, 2)
    assert read(root, "read_file_lines", path="a", start=2, end=2).text == "last\n"


def test_lines_asked_for_are_answered_and_the_end_is_said(root: Path) -> None:
    (root / "a").write_text("".join(f"{n}\n" for n in range(1, 10)))

    def lines(start: int, end: int) -> ReadResult:
        return read(root, "read_file_lines", path="a", start=start, end=end)

    assert lines(2, 3) == ReadResult("2\n3\n", (2, 3))
    assert lines(9, 9) == ReadResult("9\n", (9, 9))
    assert lines(8, 99) == ReadResult("8\n9\n", (8, 9))
    refused(lines(10, 11), "has 9 lines; line 10 is beyond the end")
    refused(lines(3, 2), "expected end at or after start")


def test_lines_are_the_same_wherever_the_chunks_fall(root: Path) -> None:
    lines = [b"%d" % n * (n % 5) + b"\n" for n in range(40)] + [b"tail"]
    (root / "a").write_bytes(b"".join(lines))
    workspace = GitWorkspace(root, limits=Limits(chunk_bytes=3))
    for start in range(1, 42):
        for end in range(start, 43):
            asked = {"path": "a", "start": start, "end": end}
            answer = workspace.read("read_file_lines", asked)
            assert answer.text.encode() == b"".join(lines[start - 1 : end])
            assert answer.lines == (start, min(end, 41))


def test_a_long_file_is_cut_after_a_line_and_says_so(root: Path) -> None:
    (root / "a").write_text(("x" * 99 + "\n") * 2_044)
    answer = read(root, "read_file", path="a")
    text, _, note = answer.text.rpartition("\n")
    assert note == "[cut: lines 1-655 of 2,044; read the rest with read_file_lines]"
    assert (answer.cut, answer.lines) == (True, (1, 655))
    assert text == ("x" * 99 + "\n") * 654 + "x" * 99
    more = read(root, "read_file_lines", path="a", start=656, end=2_044)
    assert (more.cut, more.lines) == (True, (656, 1_310))


def test_a_file_of_just_the_limit_is_whole(root: Path) -> None:
    (root / "a").write_text("x" * READ_BYTES_MAX)
    assert read(root, "read_file", path="a") == ReadResult("x" * READ_BYTES_MAX, (1, 1))


@pytest.mark.parametrize("shift", range(4))
def test_a_line_over_the_limit_is_cut_at_a_character_and_answers_no_line(
    root: Path, shift: int
) -> None:
    (root / "a").write_text("x" * shift + "😀" * READ_BYTES_MAX)
    answer = read(root, "read_file", path="a")
    text, _, note = answer.text.rpartition("\n")
    assert note == "[cut: line 1 of 1 is longer than 65,536 bytes]"
    assert (answer.cut, answer.lines) == (True, None)
    assert set(text) == {"x", "😀"} - ({"x"} if not shift else set())
    assert READ_BYTES_MAX - 4 < len(text.encode()) <= READ_BYTES_MAX


def test_bytes_that_are_not_utf_8_are_shown_as_such(root: Path) -> None:
    (root / "a").write_bytes(b"caf\xe9\nnext\n")
    answer = read(root, "read_file", path="a")
    assert answer.text == "caf\ufffd\nnext\n" + NOT_UTF8
    assert answer.lines == (1, 2)


def test_an_answer_of_replaced_bytes_keeps_the_limit(root: Path) -> None:
    (root / "a").write_bytes(b"\xff" * 60 + b"\n" + b"\xff" * READ_BYTES_MAX)
    answer = read(root, "read_file", path="a")
    assert (answer.lines, answer.cut) == ((1, 1), True)
    assert len(answer.text.encode()) < READ_BYTES_MAX + 300


@pytest.mark.parametrize("content", [b"\0", b"\x7fELF\0\0\n" * 100, b"x" * 9_000 + b"\0"])
def test_a_binary_file_is_named_by_its_size(root: Path, content: bytes) -> None:
    (root / "a").write_bytes(content)
    assert read(root, "read_file", path="a") == ReadResult(f"binary, {len(content):,} bytes")


def test_a_huge_file_is_streamed(root: Path) -> None:
    with open(root / "big", "wb") as file:
        for n in range(90):
            file.write(b"%015d\n" % n * 65_536)
    tracemalloc.start()
    try:
        answer = read(
            root, "read_file_lines", path="big", start=89 * 65_536 + 1, end=89 * 65_536 + 2
        )
        assert answer == ReadResult("000000000000089\n" * 2, (5_832_705, 5_832_706))
        head = read(root, "read_file", path="big")
        assert head.text.endswith("[cut: lines 1-4,096; read the rest with read_file_lines]")
        assert tracemalloc.get_traced_memory()[1] < 40 * 1024 * 1024
    finally:
        tracemalloc.stop()
    limits = Limits(scan_bytes_max=1_000_000)
    past = read(root, "read_file_lines", limits, path="big", start=9_000_000, end=9_000_001)
    refused(past, "is past what is read, 1,000,000 bytes")


def test_what_the_scan_limit_leaves_out_is_said_and_a_broken_line_is_not_counted(
    root: Path,
) -> None:
    (root / "a").write_text("one\ntwo\nthree\n")
    end = "only the first 10 bytes of a file are read]"
    limits = Limits(scan_bytes_max=10)
    answer = read(root, "read_file", limits, path="a")
    assert answer == ReadResult(f"one\ntwo\n[cut: lines 1-2; {end}", (1, 2), cut=True)
    answer = read(root, "read_file_lines", limits, path="a", start=2, end=9)
    assert answer == ReadResult(f"two\n[cut: lines 2-2; {end}", (2, 2), cut=True)
    answer = read(root, "read_file_lines", limits, path="a", start=3, end=3)
    assert answer == ReadResult(f"thr\n[cut: a part of line 3; {end}", cut=True)
    answer = read(root, "read_file_lines", limits, path="a", start=1, end=2)
    assert answer == ReadResult("one\ntwo\n", (1, 2))


def test_a_file_of_just_the_scan_limit_is_whole(root: Path) -> None:
    (root / "a").write_text("one\ntwo")
    answer = read(root, "read_file", Limits(scan_bytes_max=7), path="a")
    assert answer == ReadResult("one\ntwo", (1, 2))
    past = read(root, "read_file_lines", Limits(scan_bytes_max=7), path="a", start=3, end=3)
    refused(past, "has 2 lines; line 3 is beyond the end")


def test_a_scan_that_ends_inside_a_character_shows_no_broken_one(root: Path) -> None:
    (root / "a").write_text("😀" * 9)
    for scan_bytes_max in range(8, 12):
        answer = read(root, "read_file", Limits(scan_bytes_max=scan_bytes_max), path="a")
        note = f"only the first {scan_bytes_max} bytes of a file are read]"
        whole = "😀" * ((scan_bytes_max + 1) // 4)
        assert answer == ReadResult(f"{whole}\n[cut: a part of line 1; {note}", cut=True)


def test_an_answer_cut_short_of_the_scan_limit_says_that_there_is_more_to_read(root: Path) -> None:
    (root / "a").write_bytes(b"\xff\n" * 9)
    answer = read(root, "read_file", Limits(read_bytes_max=10, scan_bytes_max=9), path="a")
    assert answer.text.endswith("\n[cut: lines 1-2; read the rest with read_file_lines]")
    assert (answer.lines, answer.cut) == ((1, 2), True)


@pytest.mark.parametrize("chunk_bytes", [2, 4_096])
def test_an_answer_is_whole_or_says_that_it_is_cut_wherever_the_scan_ends(
    root: Path, chunk_bytes: int
) -> None:
    lines = [b"a\n", b"\n", b"bcd\n", b"ef\n", b"ghijk"]
    content = b"".join(lines)
    (root / "a").write_bytes(content)
    for scan_bytes_max in range(1, len(content) + 2):
        limits = Limits(scan_bytes_max=scan_bytes_max, chunk_bytes=chunk_bytes)
        workspace = GitWorkspace(root, limits=limits)
        for start in range(1, 6):
            for end in range(start, 7):
                asked = {"path": "a", "start": start, "end": end}
                answer = workspace.read("read_file_lines", asked)
                whole = b"".join(lines[start - 1 : end]).decode()
                if answer.error:
                    refused(answer, f"line {start} is past what is read, {scan_bytes_max} bytes")
                    assert len(b"".join(lines[: start - 1])) > scan_bytes_max
                elif not answer.cut:
                    assert (answer.text, answer.lines) == (whole, (start, min(end, 5)))
                else:
                    shown, _, note = answer.text.rpartition("\n")
                    assert note.startswith("[cut: ")
                    assert whole.startswith(shown)
                    assert len(content) > scan_bytes_max
                    held = b"".join(lines[start - 1 : answer.lines[1]]) if answer.lines else b""
                    assert not answer.lines or (shown + "\n").encode() == held


def test_a_sparse_terabyte_answers_at_once(root: Path) -> None:
    with open(root / "sparse", "wb") as file:
        file.truncate(2**40)
    assert read(root, "read_file", path="sparse").text == f"binary, {2**40:,} bytes"
    summary = read(root, "summarize_directory").text.splitlines()
    assert summary[0] == f"all: 1 files, 0 lines, {2**40:,} bytes (1 files without lines)"


# --- directories -----------------------------------------------------------------------------------------


def test_files_are_listed_below_a_directory_by_code_point(root: Path) -> None:
    for name in ("b", "a/z", "a/é", "a-b", "A", "a/sub/𝒳"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    listed = read(root, "list_files").text.splitlines()
    assert listed == sorted(["b", "a/z", "a/é", "a-b", "A", "a/sub/𝒳"])
    assert read(root, "list_files", directory="a/sub").text == "a/sub/𝒳\n"
    refused(read(root, "list_files", directory="b"), "is a file")
    refused(read(root, "list_files", directory="none"), "no such file")


def test_a_name_cannot_forge_a_line_of_the_list(root: Path) -> None:
    (root / 'a\n"b').touch()
    os.close(os.open(os.fsencode(root) + b"/\xff", os.O_CREAT, 0o644))
    assert read(root, "list_files").text == '"a\\n\\"b"\n"\\xff"\n'
    assert read(root, "read_file", path='a\n"b').text == ""


def test_a_long_list_is_cut_and_says_how_many_are_left_out(root: Path) -> None:
    for n in range(7):
        (root / f"f{n}").touch()
    answer = read(root, "list_files", Limits(listed_files_max=3))
    assert answer.cut
    assert answer.text.splitlines()[3:] == [
        "[cut: 4 of 7 files left out; list a directory further down]"
    ]
    few = Limits(found_files_max=5)
    refused(read(root, "list_files", few), "holds more than 5 files")
    with pytest.raises(BadData):
        GitWorkspace(root, limits=few).describe()


def test_a_file_too_large_to_hash_is_refused_before_it_is_read(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One with holes takes no room on the disk, and hours to read."""
    (root / "holes").touch()
    os.truncate(root / "holes", 2**40)
    (root / "z").write_text("small\n")

    def read(*_: object) -> bytes:
        raise AssertionError("it was read")

    workspace = GitWorkspace(root)
    with monkeypatch.context() as patched:
        patched.setattr(os, "read", read)
        with pytest.raises(
            BadData, match="68,719,476,736 bytes in all files, found more with holes"
        ):
            workspace.describe()
    (root / "holes").unlink()
    assert GitWorkspace(root, limits=Limits(hashed_bytes_max=6)).describe().tree is not None
    with pytest.raises(BadData, match="at most 5 bytes in all files, found more with z"):
        GitWorkspace(root, limits=Limits(hashed_bytes_max=5)).describe()


def test_a_directory_too_deep_to_enter_is_marked(root: Path) -> None:
    here = os.open(root, os.O_RDONLY)
    for _ in range(140):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(os.open("bottom", os.O_CREAT, dir_fd=here))
    os.close(here)
    (root / "a").write_text("x\n")
    listed = read(root, "list_files").text.splitlines()
    assert listed == ["a", "d/" * 129 + " [cannot be listed]"]
    assert read(root, "summarize_directory").text.splitlines() == [
        "all: 1 files, 1 lines, 2 bytes",
        "(no extension): 1 files, 1 lines, 2 bytes",
        "[not counted: what is in 1 directories that cannot be listed]",
    ]
    with pytest.raises(Denied, match="d/…: may not be read"):
        GitWorkspace(root).describe()
    refused(read(root, "read_file", path="d/" * 140 + "bottom"), "deeper than 128")


def test_a_summary_counts_by_kind(root: Path) -> None:
    (root / "a.py").write_text("1\n2\n")
    (root / "b.py").write_text("3")
    (root / "data.bin").write_bytes(b"\0\n\n")
    (root / "Makefile").write_text("all:\n")
    (root / "link.py").symlink_to("../outside/secret.txt")
    assert read(root, "summarize_directory").text.splitlines() == [
        "all: 5 files, 4 lines, 34 bytes",
        ".py: 2 files, 3 lines, 5 bytes",
        "(links): 1 files, 0 lines, 21 bytes",
        "(no extension): 1 files, 1 lines, 5 bytes",
        ".bin: 1 files, 0 lines, 3 bytes",
    ]
    limits = Limits(summary_kinds_max=2, summary_bytes_max=5)
    answer = read(root, "summarize_directory", limits)
    assert answer.cut
    assert "[cut: 2 more kinds: 2 files, 1 lines, 8 bytes (1 files without lines)]" in answer.text


# --- the state of the tree, the constructor --------------------------------------------------------------


def test_the_manifest_outside_of_git_is_the_documented_one(root: Path) -> None:
    (root / "b").mkdir()
    (root / "b" / "run").write_bytes(b"#!\n")
    (root / "b" / "run").chmod(0o755)
    (root / "a\n").write_bytes(b"x")
    (root / "link").symlink_to("a\n")
    os.close(os.open(os.fsencode(root) + b"/\xff", os.O_CREAT, 0o644))

    def digest(content: bytes) -> bytes:
        return hashlib.sha256(content).hexdigest().encode()

    manifest = b"100644 " + digest(b"x") + b" a\n\0"
    manifest += b"100755 " + digest(b"#!\n") + b" b/run\0"
    manifest += b"120000 " + digest(b"a\n") + b" link\0"
    manifest += b"100644 " + digest(b"") + b" \xff\0"
    state = GitWorkspace(root).describe()
    assert state.tree == hashlib.sha256(manifest).hexdigest()
    assert (state.root, state.commit, state.dirty) == (str(root), None, False)
    os.utime(root / "a\n", (1, 1))
    assert GitWorkspace(root).describe() == state


def test_outside_of_git_the_git_tools_answer_an_error(root: Path) -> None:
    words = "not in the work tree of a git repository"
    refused(read(root, "git_log"), words)
    refused(read(root, "git_show", ref="HEAD", path="a"), words)
    refused(read(root, "read_diff_between_refs", ref1="a", ref2="b"), words)
    refused(GitWorkspace(root).diff("HEAD"), words)
    with pytest.raises(Misuse, match="expected a git repository"):
        GitWorkspace(root).resolve_ref("HEAD")
    with pytest.raises(Misuse, match="expected a git repository"):
        GitWorkspace(root).default_base()


def test_a_root_that_is_not_there_or_no_directory_is_an_error(root: Path) -> None:
    with pytest.raises(NoInput, match="expected a directory, found nothing") as missing:
        GitWorkspace(root / "none")
    assert missing.value.hint
    (root / "file").touch()
    with pytest.raises(BadData, match="expected a directory, found a file"):
        GitWorkspace(root / "file")
    with pytest.raises(NoInput):
        GitWorkspace(root / "file" / "below")
    with pytest.raises(BadData):
        GitWorkspace(Path("a\0b"))
    (root / "loop").symlink_to("loop")
    with pytest.raises(BadData):
        GitWorkspace(root / "loop")


def test_no_descriptor_is_left_open(root: Path) -> None:
    (root / "a").write_text("x\n")
    (root / "out").symlink_to("../outside/secret.txt")
    workspace = GitWorkspace(root)
    before = len(os.listdir("/proc/self/fd"))
    for path in ("a", "out", "none", ".git/x", "a/b", ".."):
        workspace.read("read_file", {"path": path})
        workspace.read("list_files", {"directory": path})
    workspace.describe()
    assert len(os.listdir("/proc/self/fd")) == before
