r"""What is printed, and how. Everything a command shows goes through here.

1.  Text from outside (ids, paths, what a model wrote, what an error quotes) is hostile. `safe` shows each
    character that is not printable as an escape, `\x1b`, `\u202e`: controls, C1, DEL, bidi and other format
    characters, line separators, lone surrogates. What is left is one line. `Terminal` applies it to all it
    prints, so nobody can forget it.
2.  No text is ever read as markup, a format string or a link.
3.  A command's answer goes to stdout; errors, warnings, progress bars and questions go to stderr.
4.  Colour only where the stream is a terminal and NO_COLOR is unset; it never carries meaning alone.
5.  A stream that is no terminal gets the same text. The width is that of the terminal, or COLUMNS, within
    80 to 200.
6.  Nothing wraps inside a word or a digest. What does not fit a column is cut and ends in `…`; a page never
    hides a decision, a digest or the name of a stream that way. What is listed for a program to read on,
    `log`'s records, is cut on a terminal only.
7.  What the stream's encoding cannot say is spelled in ASCII: `→` is `->`, another character its escape.
8.  An error is `error: …`, then `hint: …`: what was expected, what was found, where; then what to try.
9.  JSON is ASCII, so that rule 1 holds for it too.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TextIO

from rich.cells import cell_len

from ...domain.errors import IOFailure

WIDTH_MIN: Final = 80
WIDTH_MAX: Final = 200
DIGEST_CHARACTERS: Final = 8

Part = str | tuple[str, str]
"""Text, or text with the name of a style."""

STYLES: Final = {
    "good": "green",
    "warn": "yellow",
    "bad": "bold red",
    "strong": "bold",
    "dim": "dim",
}
_ASCII: Final = {"→": "->", "…": "...", "·": "-", "—": "--", "–": "-", "✓": "v", "×": "x", "’": "'"}


def safe(text: str) -> str:
    """`text` on one line, without a character that a terminal could obey (rule 1)."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\u3000" else _escape(c) for c in text)


def _escape(character: str) -> str:
    code = ord(character)
    named = {0x0A: "\\n", 0x0D: "\\r", 0x09: "\\t"}.get(code)
    if named is not None:
        return named
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def flowing(text: str) -> str:
    """Prose on one line: each run of blanks and line ends is one blank."""
    return " ".join(part for part in text.replace("\t", " ").replace("\r", " ").split() if part)


def short(digest: str) -> str:
    """The beginning of a digest: enough to recognise it by."""
    return digest[:DIGEST_CHARACTERS] + "…"


def json_line(document: Any) -> str:
    """`document` as one line of JSON in ASCII (rule 9)."""
    # json leaves DEL as it is; outside of strings JSON has none.
    return json.dumps(document, separators=(",", ":")).replace("\x7f", "\\u007f")


def json_page(document: Any) -> str:
    """`document` as JSON for a person, in ASCII (rule 9)."""
    return json.dumps(document, indent=2).replace("\x7f", "\\u007f")


@dataclass(frozen=True)
class Column:
    """A column of a table. `right`: numbers. Where the table is too wide, a `flexible` one is cut, and in the
    first column, where it is `whole`, what is too long stands on a line of its own above its row.
    """

    title: str = ""
    right: bool = False
    flexible: bool = False
    whole: bool = False


class ReaderGone(Exception):
    """Whoever read the stream has closed it. No `OSError`: typer would take that for its own."""


class Terminal:
    """One stream that a person or a pipe reads.

    What prints raises `ReaderGone` where it was closed, `IOFailure` where writing fails. `beside`: it is not
    the command's answer, so that nothing is raised and the rest goes unsaid.
    """

    def __init__(self, stream: TextIO, *, beside: bool = False) -> None:
        self._stream = stream
        self._beside = beside
        self.encoding = (getattr(stream, "encoding", None) or "utf-8").lower()
        self.is_terminal = _is_terminal(stream)
        self.width = max(
            WIDTH_MIN, min(WIDTH_MAX, shutil.get_terminal_size((WIDTH_MIN, 24)).columns)
        )
        self._colour = self.is_terminal and not os.environ.get("NO_COLOR")
        self._unicode = self.encoding.replace("-", "").replace("_", "") in ("utf8", "utf16")
        self._rendered: dict[str, Callable[[str], str]] = {}

    def text(self, text: str) -> str:
        """`text` as this stream can show it (rules 1 and 7)."""
        text = safe(text)
        if self._unicode or text.isascii():
            return text
        return "".join(self._sayable(character) for character in text)

    def _sayable(self, character: str) -> str:
        try:
            character.encode(self.encoding)
        except (UnicodeEncodeError, LookupError):
            return _ASCII.get(character) or _escape(character)
        return character

    def cells(self, text: str) -> int:
        """How many columns `text` takes here."""
        return cell_len(self.text(text))

    def line(self, *parts: Part) -> None:
        """Print one line, without the blanks it would end in."""
        self._write(self._line(_stripped(list(parts))) + "\n")

    def heading(self, text: str, style: str, rest: str = "") -> None:
        """Print the line an answer begins with; broken between words where it is too long."""
        if self.cells(text + rest) <= self.width:
            self.line((text, style), rest)
            return
        mark = rest[:1] if rest[:1] in (",", ":") else ""
        self.paragraph((text + mark, style), rest.removeprefix(mark))

    def blank(self) -> None:
        """Print an empty line."""
        self._write("\n")

    def raw(self, text: str) -> None:
        """Print JSON, which is ASCII."""
        self._write(text + "\n")

    def bytes(self, data: bytes) -> None:
        """Hand over bytes as they are, to a file or a pipe."""
        self.flush()
        self._do(lambda: self._stream.buffer.write(data))
        self.flush()

    def flush(self) -> None:
        """Hand over what is printed."""
        self._do(self._stream.flush)

    def _write(self, text: str) -> None:
        self._do(lambda: self._stream.write(text))

    def _do(self, act: Callable[[], object]) -> None:
        try:
            act()
        except BrokenPipeError:
            if not self._beside:
                raise ReaderGone from None
        except OSError as error:
            if not self._beside:
                raise IOFailure(
                    f"standard output: {error.strerror or error}",
                    hint="what was printed is not whole",
                ) from None

    def paragraph(self, *parts: Part, indent: int = 0, hang: int | None = None) -> None:
        """Print prose, broken between words. `hang`: the indent of the lines after the first."""
        hang = indent if hang is None else hang
        lines: list[list[Part]] = [[" " * indent]]
        used = indent
        begun = False
        for part in parts:
            text, style = (part, "") if isinstance(part, str) else part
            for word in self.text(text).split(" "):
                if not word:
                    continue
                length = cell_len(word)
                if begun and used + 1 + length > self.width:
                    lines.append([" " * hang])
                    used, begun = hang, False
                if begun:
                    lines[-1].append(" ")
                    used += 1
                lines[-1].append((word, style) if style else word)
                used, begun = used + length, True
        for line in lines:
            self.line(*line)

    def command(self, label: str, command: str) -> None:
        """Print a command to be typed, after a label. Too long a one goes on with `\\` before an option."""
        first, *options = command.split(" --")
        line, hang = f"{label}{first}", " " * (self.cells(label) + 2)
        for option in options:
            if self.cells(f"{line} --{option}") > self.width - 2:
                self.line(f"{line} \\")
                line = f"{hang}--{option}"
            else:
                line += f" --{option}"
        self.line(line)

    def table(
        self, columns: Sequence[Column], rows: Sequence[Sequence[Part]], *, indent: int = 2
    ) -> None:
        """Print aligned columns, two blanks apart, under their titles where one has a title."""
        titled = any(column.title for column in columns)
        cells = [[self._cell(part) for part in row] for row in rows]
        if titled:
            cells.insert(0, [(self.text(column.title), "dim") for column in columns])
        if not cells:
            return
        widths = [max(cell_len(row[place][0]) for row in cells) for place in range(len(columns))]
        over = indent + sum(widths) + 2 * (len(columns) - 1) - self.width
        spare = sum(
            max(0, widths[place] - self._least(column))
            for place, column in enumerate(columns)
            if column.flexible
        )
        if columns[0].whole and over > spare:
            room = widths[0] - over
            lengths = [n for row in cells if (n := cell_len(row[0][0])) <= room]
            shorter = max([*lengths, cell_len(self.text(columns[0].title))])
            over -= widths[0] - shorter
            widths[0] = shorter
        for place, column in enumerate(columns):
            if column.flexible and over > 0:
                cut = min(over, max(0, widths[place] - self._least(column)))
                widths[place] -= cut
                over -= cut
        for row in cells:
            if columns[0].whole and cell_len(row[0][0]) > widths[0]:
                self.line(" " * indent, row[0])
                row[0] = ("", "")
            parts: list[Part] = [" " * indent]
            for place, (column, (text, style)) in enumerate(zip(columns, row, strict=True)):
                shown = self.fit(text, widths[place])
                pad = " " * (widths[place] - cell_len(shown))
                last = place == len(columns) - 1
                text = pad + shown if column.right else shown if last else shown + pad
                parts.append((text, style) if style else text)
                if not last:
                    parts.append("  ")
            self.line(*parts)

    def _least(self, column: Column) -> int:
        return max(8, cell_len(self.text(column.title)))

    def table_width(self, columns: Sequence[Column], rows: Sequence[Sequence[Part]]) -> int:
        """How wide `table` would be if nothing were cut."""
        widths = [self.cells(column.title) for column in columns]
        for row in rows:
            for place, part in enumerate(row):
                widths[place] = max(widths[place], cell_len(self._cell(part)[0]))
        return 2 + sum(widths) + 2 * (len(columns) - 1)

    def _cell(self, part: Part) -> tuple[str, str]:
        text, style = (part, "") if isinstance(part, str) else part
        return self.text(text), style

    def fit(self, text: str, width: int) -> str:
        """`text` in at most `width` columns, cut at its end."""
        text = self.text(text)
        if cell_len(text) <= width:
            return text
        mark = self.text("…")
        kept, used = [], cell_len(mark)
        for character in text:
            used += cell_len(character)
            if used > width:
                break
            kept.append(character)
        return "".join(kept) + mark

    def fit_middle(self, text: str, width: int) -> str:
        """`text` in at most `width` columns, cut in its middle: names that begin alike end otherwise."""
        text = self.text(text)
        if cell_len(text) <= width:
            return text
        begun = self.fit(text, (width + 1) // 2)
        end, used = "", cell_len(begun)
        for character in reversed(text):
            used += cell_len(character)
            if used > width:
                break
            end = character + end
        return begun + end

    def pad(self, text: str, width: int, *, right: bool = False) -> str:
        """`text` filled up with blanks to `width` columns."""
        text = self.text(text)
        blanks = " " * max(0, width - cell_len(text))
        return blanks + text if right else text + blanks

    def _line(self, parts: Iterable[Part]) -> str:
        return "".join(
            self.text(part) if isinstance(part, str) else self._styled(*part) for part in parts
        )

    def _styled(self, text: str, style: str) -> str:
        text = self.text(text)
        if not self._colour or not style or not text:
            return text
        if style not in self._rendered:
            from rich.color import ColorSystem
            from rich.style import Style

            meant = Style.parse(STYLES[style])
            self._rendered[style] = lambda t: meant.render(t, color_system=ColorSystem.STANDARD)
        return self._rendered[style](text)


def _stripped(parts: list[Part]) -> list[Part]:
    """The parts without the blanks that a line would end in."""
    while parts:
        last = parts[-1]
        text = last if isinstance(last, str) else last[0]
        trimmed = text.rstrip(" ")
        if trimmed:
            parts[-1] = trimmed if isinstance(last, str) else (trimmed, last[1])
            break
        parts.pop()
    return parts


def _is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty()
    except ValueError:  # closed
        return False


def out() -> Terminal:
    """Stdout: a command's answer. Raises `IOFailure` where the process was started without one."""
    require_stdout()
    return Terminal(sys.stdout)


def require_stdout() -> None:
    """Raise `IOFailure` where the process was started with its stdout closed (`>&-`)."""
    if sys.stdout is None:
        raise IOFailure(
            "standard output: expected a stream, found it closed",
            hint="nothing was done; >/dev/null throws the answer away",
        )


def err() -> Terminal:
    """Stderr: errors, warnings, progress. Without one they go unsaid, and the exit code says it."""
    return Terminal(io.StringIO() if sys.stderr is None else sys.stderr, beside=True)


def may_ask() -> bool:
    """Whether a question can be put to a person."""
    return sys.stdin is not None and _is_terminal(sys.stdin)


def complain(message: str, hint: str = "") -> None:
    """Print an error (rule 8)."""
    terminal = err()
    terminal.line(("error:", "bad"), f" {message}")
    if hint:
        terminal.line(("hint:", "strong"), f" {hint}")


def warn(message: str) -> None:
    """Print a warning on stderr: the command goes on."""
    err().line(("warning:", "warn"), f" {message}")
