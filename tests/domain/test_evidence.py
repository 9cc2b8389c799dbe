"""What a model answered, as evidence: given back as it was, and nothing else taken for it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from causebook.domain.evidence import response_bytes, response_from
from causebook.domain.ports import Response, ToolCall

TEXTS = st.text(st.characters(), max_size=12) | st.sampled_from(["\ud800", "", "{"])
WHOLE: dict[str, Any] = {
    "calls": [["c1", "read_file", "{}", False], [None, "", "", True]],
    "content": None,
    "finish_reason": "stop",
}


@given(
    content=st.none() | TEXTS,
    finish_reason=st.none() | TEXTS,
    calls=st.lists(
        st.builds(ToolCall, st.none() | TEXTS, TEXTS, TEXTS, st.booleans()), max_size=4
    ).map(tuple),
)
def test_an_answer_is_given_back_as_it_was(
    content: str | None, finish_reason: str | None, calls: tuple[ToolCall, ...]
) -> None:
    answer = Response(content, calls, finish_reason=finish_reason)
    body = response_bytes(answer)
    assert body.isascii()
    assert response_from(body) == answer


def test_the_twin_of_each_is_an_answer() -> None:
    assert response_from(json.dumps(WHOLE).encode()) == Response(
        None,
        (ToolCall("c1", "read_file", "{}", False), ToolCall(None, "", "", True)),
        finish_reason="stop",
    )


@pytest.mark.parametrize(
    "change",
    [
        {"content": 1},
        {"content": ["text"]},
        {"content": False},
        {"finish_reason": 0},
        {"finish_reason": {}},
        {"calls": None},
        {"calls": 1},
        {"calls": [None]},
        {"calls": [["c1", "read_file", "{}"]]},
        {"calls": [["c1", "read_file", "{}", False, 1]]},
        {"calls": [["c1", "read_file", "{}", 0]]},
        {"calls": [["c1", "read_file", "{}", None]]},
        {"calls": [["c1", "read_file", {}, True]]},
        {"calls": [["c1", None, "{}", False]]},
        {"calls": [["c1", 7, "{}", False]]},
        {"calls": [[1, "read_file", "{}", False]]},
        {"calls": {"abcd": 1}},
        {"calls": "abcd"},
        {"calls": ""},
        {"calls": {}},
        {"calls": ["abcd"]},
    ],
    ids=json.dumps,
)
def test_wrong_types_are_no_answer(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"."):
        response_from(json.dumps({**WHOLE, **change}).encode())


@pytest.mark.parametrize("field", list(WHOLE))
def test_a_missing_field_is_no_answer(field: str) -> None:
    less = {name: value for name, value in WHOLE.items() if name != field}
    with pytest.raises(ValueError, match="not a model's answer"):
        response_from(json.dumps(less).encode())


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b"7",
        b'"text"',
        b"{",
        b"{}",
        b"\xff\xfe",
        b"[" * 200_000,
        b"[" * 200_000 + b"]" * 200_000,
        b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
        b'{"calls":' + b"[" * 100_000 + b"]" * 100_000 + b',"content":null,"finish_reason":null}',
        b"9" * 5_000,
    ],
    ids=lambda body: f"{body[:12]!r} of {len(body)}",
)
def test_bytes_that_are_no_answer_are_refused_with_a_value_error(body: bytes) -> None:
    """However deep they nest: what is found in a store is no reason to fall."""
    with pytest.raises(ValueError, match=r"."):
        response_from(body)
