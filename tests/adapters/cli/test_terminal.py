"""What reaches a terminal: no character that it could obey, no markup, nothing wrapped inside a word."""

from __future__ import annotations

import io
import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from causebook.adapters.cli.terminal import (
    Column,
    Terminal,
    flowing,
    json_line,
    json_page,
    safe,
)
from causebook.domain.errors import IOFailure

HOSTILE = {
    "\x1b[31m": "\\x1b[31m",
    "\x9b31m": "\\x9b31m",
    "a\nb\rc\td": "a\\nb\\rc\\td",
    "\x00\x07\x08\x7f\x85": "\\x00\\x07\\x08\\x7f\\x85",
    "\u202eabc\u2066\u200f": "\\u202eabc\\u2066\\u200f",
    "\u2028\u2029": "\\u2028\\u2029",
    "\ud800x\udfff": "\\ud800x\\udfff",
    "\U000e0041\ufeff\u200b\u00ad": "\\U000e0041\\ufeff\\u200b\\xad",
    "[red]x[/red] %s {0} :smile:": "[red]x[/red] %s {0} :smile:",
    "ж 漢字 é\u3000→": "ж 漢字 é\u3000→",
}


def terminal(encoding: str = "utf-8") -> tuple[Terminal, io.BytesIO]:
    bytes_written = io.BytesIO()
    return Terminal(io.TextIOWrapper(bytes_written, encoding, write_through=True)), bytes_written


@pytest.mark.parametrize(("text", "shown"), HOSTILE.items(), ids=range(len(HOSTILE)))
def test_hostile_text_is_shown_as_escapes(text: str, shown: str) -> None:
    assert safe(text) == shown


@given(st.text(st.characters()))
def test_nothing_that_is_safe_is_obeyed(text: str) -> None:
    shown = safe(text)
    assert safe(shown) == shown
    for character in shown:
        assert unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Zl", "Zp")
    assert len(shown.splitlines()) <= 1


@given(st.text(st.characters()), st.sampled_from(["ascii", "latin-1", "cp1252", "koi8-r", "utf-8"]))
def test_every_encoding_can_say_it(text: str, encoding: str) -> None:
    page, written = terminal(encoding)
    page.line(text, ("→…" + text, "bad"))
    page.paragraph(text, indent=3)
    page.table([Column("→"), Column("…", right=True, flexible=True)], [[text, text]])
    shown = written.getvalue().decode(encoding)
    assert all(c == "\n" or c.isprintable() or c == "\u3000" for c in shown)


def test_arrows_in_ascii() -> None:
    page, written = terminal("ascii")
    page.line("a → b… · x")
    assert written.getvalue() == b"a -> b... - x\n"


@given(
    st.recursive(st.text(st.characters()), lambda of: st.lists(of) | st.dictionaries(st.text(), of))
)
def test_json_is_ascii_without_controls_and_says_the_same(document: object) -> None:
    line = json_line(document)
    assert line.isascii()
    assert line.isprintable()
    assert json.loads(line) == document
    assert json.loads(json_page(document)) == document


def test_a_paragraph_breaks_between_words_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    page, written = terminal()
    words = ["w" * (n % 11 + 1) for n in range(80)] + ["d" * 64, "x" * 120, "end"]
    page.paragraph(" ".join(words), indent=4, hang=6)
    lines = written.getvalue().decode().splitlines()
    assert [word for line in lines for word in line.split()] == words
    assert all(len(line) <= 80 or len(line.split()) == 1 for line in lines)
    assert lines[0].startswith("    w")
    assert lines[1].startswith("      w")


@pytest.mark.parametrize(("columns", "width"), [("20", 80), ("80", 80), ("133", 133), ("900", 200)])
def test_the_width_stays_within_its_bounds(
    monkeypatch: pytest.MonkeyPatch, columns: str, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert terminal()[0].width == width


def test_a_table_cuts_its_flexible_column_and_aligns_numbers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    page, written = terminal()
    rows = [["n" * 100, "7", "a" * 8], ["漢字", "1234", "b"]]
    page.table([Column("name", flexible=True), Column("n", right=True), Column("digest")], rows)
    lines = written.getvalue().decode().splitlines()
    assert lines[1].endswith("…     7  aaaaaaaa")
    assert len(lines[1]) == 80
    assert lines[2] == "  漢字" + " " * 58 + "  1234  b"


def test_prose_flows_on_one_line() -> None:
    assert flowing("a\n\n b\r\n\tc  d") == "a b c d"


def test_a_command_goes_on_before_an_option_and_can_be_typed() -> None:
    page, written = terminal()
    page.command("  next  ", "causebook judge TASK --protocol FILE" + " --ledger " + "l" * 60)
    assert written.getvalue().decode() == (
        "  next  causebook judge TASK --protocol FILE \\\n          --ledger " + "l" * 60 + "\n"
    )


def test_what_is_too_long_for_the_first_column_stands_above_its_row(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    page, written = terminal()
    rows = [["short", "x" * 40, "1"], ["l" * 70, "y" * 40, "2"]]
    page.table([Column("name", whole=True), Column("what"), Column("n", right=True)], rows)
    assert written.getvalue().decode().splitlines() == [
        "  name   what" + " " * 38 + "n",
        "  short  " + "x" * 40 + "  1",
        "  " + "l" * 70,
        "         " + "y" * 40 + "  2",
    ]


@pytest.mark.parametrize(
    ("width", "shown"),
    [(30, "judge-of-security-one"), (20, "judge-of-…curity-one"), (9, "judg…-one"), (2, "…e")],
)
def test_a_name_is_cut_in_its_middle(width: int, shown: str) -> None:
    page, _ = terminal()
    assert page.fit_middle("judge-of-security-one", width) == shown


class Full(io.RawIOBase):
    """A disk without space."""

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        raise OSError(28, "No space left on device")


def test_a_full_disk_is_said_for_an_answer_and_passed_over_beside_it() -> None:
    stream = io.TextIOWrapper(io.BufferedWriter(Full()), "utf-8", write_through=True)
    Terminal(stream, beside=True).line("progress")
    with pytest.raises(IOFailure, match="standard output: No space left on device"):
        Terminal(stream).flush()
    with pytest.raises(OSError, match="No space"):
        stream.detach().close()
