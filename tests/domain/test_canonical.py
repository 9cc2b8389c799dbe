"""Canonical JSON: what is written, held against another implementation, and what is refused."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
import rfc8785
from hypothesis import example, given, settings
from hypothesis import strategies as st

from causebook.domain.canonical import (
    DEPTH_MAX,
    INTEGER_MAX,
    DuplicateKey,
    decode,
    decode_foreign,
    encode,
    escaped_bytes,
)

from .account import read_json, written_size

TEXTS = st.text(max_size=20) | st.text(
    st.sampled_from('"\\/\b\f\n\r\t\0\x1f\x7f\x80\u2028\ufeff\uffff\U0001f600é<'), max_size=6
)
KEYS = st.text(st.characters(max_codepoint=127), max_size=6)
DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers(-INTEGER_MAX, INTEGER_MAX) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


@given(document=DOCUMENTS)
@settings(max_examples=250)
@example(document={"b": 1, "a": {"é\U0001f600": [None]}.get("x"), "A": "\u2028/\x7f"})
@example(document=[INTEGER_MAX, -INTEGER_MAX, 0])
def test_the_bytes_are_those_of_rfc_8785(document: Any) -> None:
    assert encode(document) == rfc8785.dumps(document)


@given(document=DOCUMENTS)
def test_what_is_written_is_read_back(document: Any) -> None:
    assert decode(encode(document)) == document


@given(document=DOCUMENTS, spaces=st.sampled_from([" ", "\n", "\t"]))
def test_another_spelling_of_the_same_document_is_refused(document: Any, spaces: str) -> None:
    line = encode(document)
    spelt = json.dumps(document, indent=1, ensure_ascii=True).encode()
    for other in (line + spaces.encode(), spaces.encode() + line, spelt):
        if other != line:
            with pytest.raises(ValueError, match=r"."):
                decode(other)


NOT_CANONICAL = [
    b"",
    b" ",
    b"{",
    b"{}{}",
    b"nul",
    b"NaN",
    b"Infinity",
    b"007",
    b"-0",
    b"1e0",
    b"1E2",
    b"+1",
    b"1.",
    b".5",
    b"1.0",
    b"-0.0",
    b"1.5",
    b"1e22",
    b"1e+22",
    b"0.000001",
    b"9007199254740992",
    b"-9007199254740992",
    b"18446744073709551615",
    b"18446744073709551616",
    b'{"a":1.0}',
    b'[{"a":[9007199254740993]}]',
    b'{"a":1,"a":1}',
    b'{"a":1,"a":2}',
    b'{"b":1,"a":2}',
    b'{"a": 1}',
    b'{"a":1,}',
    b"[1,]",
    b"[1 ,2]",
    b'"\\u0041"',
    b'"\\/"',
    b'"\\u000A"',
    b'"\\u000a"',
    b'"\\u001F"',
    b'"\\u007f"',
    b'"\\ud800"',
    b'"\\udc00\\ud800"',
    b'"\xed\xa0\x80"',
    b'"\xff"',
    b'"\xc0\x80"',
    b'"a\nb"',
    b"'a'",
    '{"é":1}'.encode(),
    '{"\U0001f600":1}'.encode(),
    b"\xef\xbb\xbf{}",
    b"{}\n",
    b"{}\0",
    b"[" * 300 + b"]" * 300,
    b'{"a":' * 300 + b"1" + b"}" * 300,
    b"[" * 5_000 + b"]" * 5_000,
    b"[" * 5_000,
]


@pytest.mark.parametrize("line", NOT_CANONICAL, ids=lambda line: repr(line[:24]))
def test_what_is_not_written_so_is_refused_with_a_value_error(line: bytes) -> None:
    with pytest.raises(ValueError, match=r"not JSON|canonical|expected|limit"):
        decode(line)


@pytest.mark.parametrize(
    "document", ["\ud800", {"\udfff": 1}, {1: 2}, object(), 2**64, [[[b"bytes"]]]]
)
def test_what_cannot_be_written_is_refused_with_a_value_error(document: Any) -> None:
    with pytest.raises(ValueError, match=r"."):
        encode(document)


def test_integers_end_at_what_every_reader_keeps_exact() -> None:
    assert decode(b"9007199254740991") == INTEGER_MAX
    assert decode(b"-9007199254740991") == -INTEGER_MAX


# ── another party's JSON ───────────────────────────────────────────────────────────────────────────


@given(
    text=st.text(st.sampled_from('{}[]":,\\ud8c0efalsn1-.E+ \n"a'), max_size=24)
    | DOCUMENTS.map(json.dumps)
    | DOCUMENTS.map(lambda d: json.dumps({"a": d}, indent=2, ensure_ascii=False))
)
@settings(max_examples=300)
@example(text='{"a":1,"a":1}')
@example(text='{"a":{"b":1,"b":1}}')
@example(text='{"\\u0061":1,"a":1}')
@example(text='{"a":"\\ud83d\\ude00"}')
@example(text='{"a":"\\ud83d"}')
@example(text='{"a":1e400}')
@example(text='{"a":NaN}')
@example(text='{"a":-Infinity}')
@example(text='{"a":01}')
@example(text='{"a":"\t"}')
@example(text="\ufeff{}")
@example(text='{"a":' + "9" * 5_000 + "}")
def test_another_partys_text_is_read_as_a_second_reader_reads_it(text: str) -> None:
    value, broken = read_json(text)
    try:
        found = decode_foreign(text)
    except DuplicateKey:
        assert broken == "twice"
    except ValueError:
        assert broken == "broken"
    else:
        if isinstance(found, dict):
            assert (found, "") == (value, broken)
        else:
            assert broken == "no object"


@pytest.mark.parametrize("brackets", ["[]", "{}"])
def test_depth_is_limited_whatever_the_depth_of_the_caller(brackets: str) -> None:
    def nested(depth: int) -> str:
        if brackets == "[]":
            return "[" * depth + "]" * depth
        return '{"a":' * (depth - 1) + "{" + "}" * depth

    decode_foreign(nested(DEPTH_MAX))
    with pytest.raises(ValueError, match="nested deeper than 64"):
        decode_foreign(nested(DEPTH_MAX + 1))
    with pytest.raises(ValueError, match="nested deeper than 64"):
        decode_foreign(nested(100_000))


def test_brackets_inside_of_text_do_not_nest() -> None:
    text = json.dumps({"a": "[" * 500 + '"' + "{" * 500})
    assert decode_foreign(text) == {"a": "[" * 500 + '"' + "{" * 500}


@pytest.mark.parametrize("escape", ['\\"', "\\\\", "\\n", "\\u005b", "x["])
@pytest.mark.parametrize("size", [1_000, 8_000, 64_000])
@pytest.mark.parametrize("end", ['"', ""])
def test_text_that_never_ends_is_answered_alike_at_every_length(
    escape: str, size: int, end: str
) -> None:
    """A bracket in it does not nest, and those around it count, whether the text ends or not."""

    def answer(opened: int, length: int) -> str:
        text = "[" * opened + '"' + escape * (length // len(escape)) + end + "]" * opened
        try:
            return f"{decode_foreign(text)!r:.80}"
        except ValueError as error:
            return str(error).split(":")[0]

    assert answer(DEPTH_MAX + 1, size) == answer(DEPTH_MAX + 1, 12)
    assert answer(DEPTH_MAX + 1, size) == f"nested deeper than {DEPTH_MAX}"
    assert answer(DEPTH_MAX, size).startswith("[") == bool(end)


def test_text_that_never_ends_takes_one_pass() -> None:
    """Two megabytes of escapes behind 65 brackets: one pass takes a blink, one pass a character for ever."""
    program = """
from causebook.domain.canonical import decode_foreign
for text in ("[" * 65 + '"' + '\\\\"' * 1_000_000, "[" * 65 + ('"' + '\\\\"') * 700_000):
    try:
        decode_foreign(text)
    except ValueError as error:
        print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,  # a guard against a hang, not a measure
    )
    assert done.stdout == f"nested deeper than {DEPTH_MAX}\n" * 2


@given(text=TEXTS | st.text(st.characters(), max_size=30) | st.just("\ud800"))
def test_the_length_of_a_text_is_that_between_its_quotes(text: str) -> None:
    length = escaped_bytes(text)
    assert length == written_size(text)
    if length is not None:
        assert length == len(rfc8785.dumps(text)) - 2
