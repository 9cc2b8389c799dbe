"""What a chat message says, whatever shape it came in; and the rules of faults."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from causebook.adapters.models.faults import (
    DETAIL_CHARACTERS_MAX,
    ERRORS,
    fault,
    milliseconds,
    redact,
    retry_after,
)
from causebook.adapters.models.message import count, json_text, read_message
from causebook.domain.canonical import decode_foreign
from causebook.domain.ports import ToolCall


def one(call: Any) -> ToolCall:
    (found,) = read_message({"tool_calls": [call]})[1]
    return found


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (None, None),
        ("", ""),
        ("a\0b\u2028\ud800", "a\0b\u2028\ud800"),
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "ab"),
        (["a", {"type": "image_url"}, {"text": None}, 3, None], "a"),
        ([], None),
        (7, "7"),
        (False, "false"),
        ({"b": 1, "a": 2}, '{"a":2,"b":1}'),
    ],
)
def test_content(content: Any, expected: str | None) -> None:
    assert read_message({"content": content}) == (expected, ())


def test_a_refusal_is_the_text_where_there_is_no_other() -> None:
    assert read_message({"content": None, "refusal": "I will not"}) == ("I will not", ())
    assert read_message({"content": "yes", "refusal": "no"}) == ("yes", ())


@pytest.mark.parametrize("message", [{}, {"tool_calls": None}, {"tool_calls": []}])
def test_no_calls(message: dict[str, Any]) -> None:
    assert read_message(message) == (None, ())


def test_a_legacy_function_call_is_ignored() -> None:
    assert read_message({"function_call": {"name": "f", "arguments": "{}"}}) == (None, ())


def test_a_call_is_kept_as_it_came() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{ "a":1'}}
    assert one(call) == ToolCall("c", "f", '{ "a":1')


@pytest.mark.parametrize("arguments", [None, ""])
def test_missing_arguments_are_empty_text_and_no_object(arguments: str | None) -> None:
    assert one({"function": {"name": "f", "arguments": arguments}}) == ToolCall(None, "f", "")
    assert one({"function": {"name": "f"}}) == ToolCall(None, "f", "")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"b": {"d": [1, None], "c": 2}, "a": "ü"}, '{"a":"ü","b":{"c":2,"d":[1,null]}}'),
        ({}, "{}"),
        ([1], "[1]"),
        (5, "5"),
        ({"n": 2**70}, '{"n":1180591620717411303424}'),
        ({"n": math.nan}, '{"n":NaN}'),
        ({"s": "\ud800"}, '{"s":"\\ud800"}'),
    ],
)
def test_arguments_that_are_no_text_become_json_and_are_marked(arguments: Any, text: str) -> None:
    assert one({"id": "c", "function": {"name": "f", "arguments": arguments}}) == ToolCall(
        "c", "f", text, was_object=True
    )


def test_arguments_nested_too_deep_never_become_json() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(ValueError, match=r"JSON|Expecting"):
        decode_foreign(json_text(deep))


@pytest.mark.parametrize(
    "call", ["f", None, 3, {}, {"id": "c"}, {"function": None}, {"function": "f"}, {"name": "f"}]
)
def test_a_call_without_a_function_is_a_nameless_call_that_shows_what_stood_there(
    call: Any,
) -> None:
    found = one(call)
    assert found.name == ""
    assert found.was_object
    assert json.loads(found.arguments) == call


@pytest.mark.parametrize("calls", ["f", 3, True, {"function": {"name": "f", "arguments": "{}"}}])
def test_calls_that_are_no_list_are_one_nameless_call(calls: Any) -> None:
    (found,) = read_message({"tool_calls": calls})[1]
    assert found.name == ""


def test_odd_ids_and_names_are_data() -> None:
    assert one({"id": 5, "function": {"name": None, "arguments": "{}"}}) == ToolCall("5", "", "{}")
    assert one({"id": ["x"], "function": {"name": {"a": 1}}}) == ToolCall('["x"]', '{"a":1}', "")


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=4,
)


@given(
    st.dictionaries(
        st.sampled_from(["content", "tool_calls", "refusal", "function_call"]),
        anything
        | st.lists(
            st.fixed_dictionaries(
                {}, optional={"id": anything, "function": anything, "type": anything}
            )
        ),
    )
)
def test_no_message_breaks_the_reader_and_no_call_is_lost(message: dict[str, Any]) -> None:
    content, calls = read_message(message)
    assert content is None or isinstance(content, str)
    listed = message.get("tool_calls")
    assert len(calls) == (0 if listed is None else len(listed) if isinstance(listed, list) else 1)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, 0),
        (2**53 - 1, 2**53 - 1),
        (2**53, None),
        (-1, None),
        (True, None),
        (1.0, None),
        ("1", None),
    ],
)
def test_counts(value: Any, expected: int | None) -> None:
    assert count(value) == expected


NOW = 1_790_000_000.0  # Mon, 21 Sep 2026 14:13:20 GMT


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (None, None),
        ("0", 0),
        ("7", 7_000),
        (" 7 ", 7_000),
        ("1.0005", 1_001),
        ("9" * 300, 2**53 - 1),
        ("-1", None),
        ("+1", None),
        ("1e3", None),
        ("inf", None),
        ("nan", None),
        ("٣", None),
        ("soon", None),
        ("", None),
        ("Mon, 21 Sep 2026 14:13:25 GMT", 5_000),
        ("Mon, 21 Sep 2026 14:13:25 -0000", 5_000),
        ("Mon, 21 Sep 2026 14:13:15 GMT", None),
        ("Mon, 99 Sep 2026 14:13:15 GMT", None),
    ],
)
def test_retry_after(header: str | None, expected: int | None) -> None:
    assert retry_after(header, now_seconds=NOW) == expected


@given(st.text())
def test_no_retry_after_breaks_the_reader(header: str) -> None:
    found = retry_after(header, now_seconds=NOW)
    assert found is None or 0 <= found <= 2**53 - 1


def test_milliseconds_round_up() -> None:
    assert milliseconds(0.0001) == 1
    assert milliseconds(-0.5) is None
    assert milliseconds(math.inf) == 2**53 - 1


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 529, 599])
def test_statuses_that_another_try_may_cure(status: int) -> None:
    assert fault("other", status=status).retryable


@pytest.mark.parametrize("status", [301, 400, 401, 402, 403, 404, 405, 413, 422])
def test_statuses_that_no_try_cures(status: int) -> None:
    assert not fault("server", status=status).retryable


@pytest.mark.parametrize("status", [None, 200, 400, 401, 422, 500])
@pytest.mark.parametrize("asked", [True, False])
def test_only_400_and_422_decline_a_tool_choice_that_was_sent(
    status: int | None, asked: bool
) -> None:
    found = fault("other", status=status, tool_choice=asked)
    assert found.declines_tool_choice == (asked and status in (400, 422))


def test_every_class_is_one_the_port_names() -> None:
    from causebook.domain.ports import ModelFault

    assert all(f"`{name}`" in (ModelFault.__doc__ or "") for name in ERRORS)


@pytest.mark.parametrize(
    "text",
    [
        "Incorrect API key provided: sk-abcd****************wxyz.",
        "key hunter2hunter2 is wrong",
        "header 'Authorization: Bearer abc.def-123'",
        "https://x/v1?key=AIzaSyA-1234567890abcdefghijkl&alt=json",
    ],
)
def test_keys_do_not_reach_a_detail(text: str) -> None:
    found = redact(text, ["hunter2hunter2", ""])
    assert "[redacted]" in found
    for secret in ("abcd", "hunter2", "abc.def", "AIza"):
        assert secret not in found


def test_a_detail_is_cut_after_it_is_redacted() -> None:
    text = "x" * (DETAIL_CHARACTERS_MAX - 4) + "hunter2hunter2"
    found = redact(text, ["hunter2hunter2"])
    assert len(found) == DETAIL_CHARACTERS_MAX
    assert "hunt" not in found
