"""Repeat reads: what makes two reads the same."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from causebook.domain.reads import ReadMemory, Repeat, normalise, normalise_path

from .account import tidy

ROOT = "/src/app"
PATHS = st.text(st.sampled_from("ab/\\. é"), max_size=14) | st.lists(
    st.sampled_from(["src", "app", "application", "..", ".", "", "/", "\\", "a.py", "/src/app"]),
    max_size=7,
).map("/".join)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("a.py", "a.py"),
        ("./a.py", "a.py"),
        ("././a.py", "a.py"),
        ("a//b.py", "a/b.py"),
        ("a\\b.py", "a/b.py"),
        ("a\\\\b.py", "a/b.py"),
        ("a/./b.py", "a/b.py"),
        ("a/b/", "a/b"),
        ("a/b/.", "a/b"),
        ("a/b//", "a/b"),
        ("", "."),
        (".", "."),
        ("./", "."),
        (".\\", "."),
        ("/", "/"),
        ("//", "/"),
        ("/.", "/"),
        ("/src/app", "."),
        ("/src/app/", "."),
        ("/src/app/a.py", "a.py"),
        ("//src\\app//./a.py", "a.py"),
        ("/src/./app/a.py", "a.py"),
        ("\\src\\app\\a.py", "a.py"),
        ("src/app/a.py", "src/app/a.py"),
        ("/src", "/src"),
        ("/src/application/a.py", "/src/application/a.py"),
        ("/src/app.py", "/src/app.py"),
        ("/src/App/a.py", "/src/App/a.py"),
        ("/etc/passwd", "/etc/passwd"),
        ("a/../b.py", "a/../b.py"),
        ("../app/a.py", "../app/a.py"),
        ("/src/app/../app/a.py", "../app/a.py"),
        ("/src/../src/app/a.py", "/src/../src/app/a.py"),
        ("...", "..."),
        (" a.py", " a.py"),
        ("a.py/b", "a.py/b"),
        ("C:\\a.py", "C:/a.py"),
        ("/src/app/src/app/a.py", "src/app/a.py"),
    ],
)
def test_a_path_has_one_spelling(path: str, expected: str) -> None:
    assert normalise_path(path, ROOT) == expected


@pytest.mark.parametrize(
    ("root", "path", "expected"),
    [
        ("/", "/a.py", "a.py"),
        ("/", "/", "."),
        ("/src/app/", "/src/app/a.py", "a.py"),
        ("//src//app", "/src/app/a.py", "a.py"),
        (None, "/src/app/a.py", "/src/app/a.py"),
        (None, "a//b", "a/b"),
    ],
)
def test_an_absolute_path_is_relative_exactly_under_the_root(
    root: str | None, path: str, expected: str
) -> None:
    assert normalise_path(path, root) == expected


@given(path=PATHS, root=st.sampled_from([None, "/", "/src/app", "/src/app/"]))
@example(path="/src/app//src/app/a", root="/src/app")
def test_normalising_agrees_with_the_account_and_twice_is_once(path: str, root: str | None) -> None:
    once = normalise_path(path, root)
    assert once == tidy(path, root)
    assert normalise_path(once, root) == once
    assert "\\" not in once
    assert "//" not in once
    assert once
    assert "." not in once.split("/") or once == "."


@given(path=PATHS)
def test_parent_parts_are_kept_for_a_link_may_stand_before_them(path: str) -> None:
    folded = path.replace("\\", "/").split("/").count("..")
    assert normalise_path(path).split("/").count("..") == folded


def key(tool: str, **arguments: Any) -> str:
    return normalise(tool, arguments, ROOT).key


def test_null_and_default_arguments_are_dropped_and_order_says_nothing() -> None:
    bare = key("list_files")
    assert key("list_files", directory=None) == bare
    assert key("list_files", directory=".") == bare
    assert key("list_files", directory="./") == bare
    assert key("list_files", directory="/src/app") == bare
    assert key("list_files", directory="lib") != bare
    assert key("git_log", n=5) == key("git_log", n=None) == key("git_log")
    assert key("git_log", n=6) != key("git_log")
    assert key("git_show", ref="HEAD", path="a") == key("git_show", path="./a", ref="HEAD")


def test_tools_and_arguments_both_count() -> None:
    assert key("list_files") != key("summarize_directory")
    assert key("read_file", path="a") != key("read_file", path="b")
    assert key("git_show", ref="a", path="b") != key("git_show", ref="b", path="a")
    assert key("read_file", path="a.py") != key("read_file", path="A.py")


@pytest.mark.parametrize(
    ("tool", "arguments", "target"),
    [
        ("read_file", {"path": "./a.py"}, "a.py"),
        ("read_file_lines", {"path": "a.py", "start": 2, "end": 9}, "a.py:2-9"),
        ("list_files", {}, "."),
        ("summarize_directory", {"directory": "lib/"}, "lib"),
        ("git_show", {"ref": "HEAD", "path": "a.py"}, "HEAD:a.py"),
        ("git_log", {}, "newest 5"),
        ("git_log", {"n": 9}, "newest 9"),
        ("read_diff_between_refs", {"ref1": "a", "ref2": "b"}, "a..b"),
        ("search_flights", {"to": "LAS", "from": "ATL"}, '{"from":"ATL","to":"LAS"}'),
    ],
)
def test_a_target_is_for_people(tool: str, arguments: dict[str, Any], target: str) -> None:
    assert normalise(tool, arguments, ROOT).target == target


def test_a_lone_surrogate_is_refused_with_a_value_error() -> None:
    with pytest.raises(ValueError, match="surrogate"):
        normalise("read_file", {"path": "\ud800"})


# ── what repeats what ──────────────────────────────────────────────────────────────────────────────


class Reader:
    """A memory, and reads that are remembered as they are made."""

    def __init__(self) -> None:
        self.memory = ReadMemory(root=ROOT)

    def file(
        self, turn: int, path: str, lines: tuple[int, int] | None, *, error: bool = False
    ) -> None:
        read = self.memory.read("read_file", {"path": path})
        self.memory.remember(read, turn=turn, lines=lines, error=error)

    def lines(
        self,
        turn: int,
        path: str,
        asked: tuple[int, int],
        answered: tuple[int, int] | None,
        *,
        error: bool = False,
    ) -> None:
        read = self.memory.read(
            "read_file_lines", {"path": path, "start": asked[0], "end": asked[1]}
        )
        self.memory.remember(read, turn=turn, lines=answered, error=error)

    def repeat(self, path: str, start: int | None = None, end: int | None = None) -> Repeat | None:
        if start is None:
            return self.memory.repeat_of(self.memory.read("read_file", {"path": path}))
        arguments = {"path": path, "start": start, "end": end}
        return self.memory.repeat_of(self.memory.read("read_file_lines", arguments))


def test_the_same_read_is_a_repeat_of_the_turn_that_answered_it_first() -> None:
    reader = Reader()
    assert reader.repeat("a.py") is None
    reader.file(3, "a.py", (1, 80))
    reader.file(5, "a.py", (1, 80))
    assert reader.repeat("/src/app/./a.py") == Repeat(3, "exact")
    assert reader.repeat("b.py") is None


def test_lines_are_contained_by_the_lines_answered_not_by_those_asked() -> None:
    reader = Reader()
    reader.lines(2, "a.py", (10, 100), (10, 49))
    assert reader.repeat("a.py", 10, 49) == Repeat(2, "contained")
    assert reader.repeat("./a.py", 20, 20) == Repeat(2, "contained")
    assert reader.repeat("a.py", 10, 50) is None
    assert reader.repeat("a.py", 9, 20) is None
    assert reader.repeat("a.py", 10, 100) == Repeat(2, "exact")


def test_a_whole_file_covers_its_lines_and_lines_never_cover_a_whole_file() -> None:
    reader = Reader()
    reader.lines(1, "a.py", (1, 80), (1, 80))
    assert reader.repeat("a.py") is None
    reader.file(2, "b.py", (1, 80))
    assert reader.repeat("b.py", 1, 80) == Repeat(2, "contained")
    assert reader.repeat("b.py", 80, 81) is None


def test_one_answer_must_cover_all_of_it_and_two_that_meet_do_not() -> None:
    reader = Reader()
    reader.lines(1, "a.py", (1, 10), (1, 10))
    reader.lines(2, "a.py", (11, 20), (11, 20))
    assert reader.repeat("a.py", 5, 15) is None
    assert reader.repeat("a.py", 12, 15) == Repeat(2, "contained")


def test_a_failed_answer_matches_exact_only() -> None:
    reader = Reader()
    reader.file(1, "a.py", (1, 80), error=True)
    assert reader.repeat("a.py") == Repeat(1, "exact")
    assert reader.repeat("a.py", 1, 5) is None


def test_an_answer_without_lines_covers_none() -> None:
    reader = Reader()
    reader.file(1, "empty", None)
    assert reader.repeat("empty", 1, 1) is None


def test_lines_of_another_file_or_revision_cover_nothing() -> None:
    reader = Reader()
    reader.file(1, "a.py", (1, 80))
    shown = reader.memory.read("git_show", {"ref": "HEAD", "path": "b.py"})
    reader.memory.remember(shown, turn=2, lines=(1, 80))
    assert reader.repeat("b.py", 1, 5) is None
    assert reader.memory.repeat_of(shown) == Repeat(2, "exact")


def test_lines_that_end_before_they_begin_are_contained_in_nothing() -> None:
    reader = Reader()
    reader.file(1, "a.py", (1, 80))
    assert reader.repeat("a.py", 9, 3) is None


def test_exact_goes_before_contained() -> None:
    reader = Reader()
    reader.file(1, "a.py", (1, 80))
    reader.lines(2, "a.py", (5, 9), None, error=True)
    assert reader.repeat("a.py", 5, 9) == Repeat(2, "exact")


def test_a_second_call_inside_one_turn_points_at_that_turn() -> None:
    reader = Reader()
    reader.file(7, "a.py", (1, 80))
    assert reader.repeat("a.py") == Repeat(7, "exact")
    assert reader.repeat("a.py", 2, 3) == Repeat(7, "contained")


@given(
    answers=st.lists(
        st.tuples(
            st.sampled_from(["a", "b"]),
            st.booleans(),
            st.integers(1, 12),
            st.integers(0, 8),
        ),
        max_size=6,
    ),
    path=st.sampled_from(["a", "b"]),
    start=st.integers(1, 12),
    length=st.integers(1, 8),
)
def test_contained_is_the_earliest_answer_that_holds_every_line(
    answers: list[tuple[str, bool, int, int]], path: str, start: int, length: int
) -> None:
    reader = Reader()
    expected: Repeat | None = None
    wanted = set(range(start, start + length))
    for turn, (name, failed, first, more) in enumerate(answers, 1):
        # Asked for far more, so that no two reads here are the same.
        reader.lines(turn, name, (first, first + 1_000 + turn), (first, first + more), error=failed)
        holds = name == path and not failed and wanted <= set(range(first, first + more + 1))
        if holds and expected is None:
            expected = Repeat(turn, "contained")
    assert reader.repeat(path, start, start + length - 1) == expected


@given(
    arguments=st.dictionaries(
        st.text("abc", min_size=1, max_size=2),
        st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
        max_size=3,
    )
)
def test_tools_that_are_not_ours_match_exact_by_their_arguments(arguments: dict[str, Any]) -> None:
    memory = ReadMemory()
    memory.remember(memory.read("search", arguments), turn=4)
    said_otherwise = dict(reversed(json.loads(json.dumps(arguments)).items()))
    said_otherwise["never_set"] = None
    assert memory.repeat_of(memory.read("search", said_otherwise)) == Repeat(4, "exact")
    assert memory.repeat_of(memory.read("search", {**arguments, "more": 1})) is None
    assert memory.repeat_of(memory.read("find", arguments)) is None
