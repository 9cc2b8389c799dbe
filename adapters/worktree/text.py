"""Hostile bytes and names as text that a model or a person is shown.

Text is UTF-8; a byte that does not decode is shown as U+FFFD, and a last line in brackets says so.
"""

from __future__ import annotations

import codecs
import os
from typing import Final

NOT_UTF8: Final = "[not UTF-8: each byte that does not decode is shown as U+FFFD]"
_SHOWN_CHARS_MAX = 200


def text_within(raw: bytes, bytes_max: int, *, more: bool = False) -> tuple[str, int, bool]:
    """(text, whole lines in it, cut or not) of the head of `raw` that fits `bytes_max` bytes of UTF-8.

    It is cut after a line; where not even one fits, inside it, and then no line counts. `more`: `raw` is
    itself only a head, which may end inside a line and inside a character.
    """
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    clean = decoder.decode(raw, final=not more).encode()
    cut = more or len(clean) > bytes_max
    if cut:
        clean = clean[:bytes_max]
        lines = clean[: clean.rfind(b"\n") + 1]
        clean = lines or clean.decode("utf-8", "ignore").encode()
    count = clean.count(b"\n") + (not cut and not clean.endswith(b"\n") and clean != b"")
    text = clean.decode()
    return (text if raw.startswith(clean) else noted(text, NOT_UTF8)), count, cut


def noted(text: str, note: str) -> str:
    """`text` with a line of ours after it."""
    return text + ("" if text.endswith("\n") or not text else "\n") + note


def shown_path(path: bytes) -> str:
    """A path as it is listed: as it stands, or quoted and escaped where it holds what could mislead."""
    text = os.fsdecode(path)
    return text if text.isprintable() and not text.startswith('"') else _quoted(text)


def shown(text: str) -> str:
    """Hostile text, short enough and safe for one line."""
    short = text if len(text) <= _SHOWN_CHARS_MAX else text[:_SHOWN_CHARS_MAX] + "…"
    return short if short.isprintable() else _quoted(short)


def _quoted(text: str) -> str:
    marks = {'"': '\\"', "\\": "\\\\"}
    return (
        '"' + "".join(marks.get(c) or (c if c.isprintable() else _escaped(c)) for c in text) + '"'
    )


def _escaped(character: str) -> str:
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # a byte that is not UTF-8, as os.fsdecode carries it
        return f"\\x{code - 0xDC00:02x}"
    return character.encode("unicode_escape").decode("ascii")
