"""What a chat message of a model says, whatever shape it came in.

Read strictly and without loss: every call a message holds becomes one `ToolCall`, however broken, so that
the law can refuse it by name; nothing is repaired into a call that was not made.

- `content`: text stays as it is. Of a list of parts the texts are joined. Null beside a `refusal` text is
  that text. Anything else that is no text is written as JSON.
- `tool_calls`: null is none. In a list, each item is a call. Anything else is one nameless call
  that holds it.
- `function_call`, the form that `tool_calls` replaced, is ignored: it is never asked for, and a message that
  holds both says one thing twice.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import orjson

from ...domain.canonical import INTEGER_MAX, encode
from ...domain.ports import ToolCall

_TOO_DEEP: Final = "nested too deep"


def read_message(message: Mapping[str, Any]) -> tuple[str | None, tuple[ToolCall, ...]]:
    """The text and the calls of an assistant's `message`, as OpenAI's chat API spells it. Never raises."""
    content = _content(message.get("content"))
    if content is None and isinstance(message.get("refusal"), str):
        content = message["refusal"]
    calls = message.get("tool_calls")
    if calls is None:
        return content, ()
    if not isinstance(calls, list):
        return content, (_nameless(None, calls),)
    return content, tuple(_call(item) for item in calls)


def text_or_json(value: Any) -> str | None:
    """`value` where it is text or None, else its JSON text."""
    return value if value is None or isinstance(value, str) else json_text(value)


def count(value: Any) -> int | None:
    """`value` where it is an integer from 0 to 2^53-1, else None."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= INTEGER_MAX:
        return value
    return None


def json_text(value: Any) -> str:
    """`value` as JSON: canonical where that says the same, else as Python's `json` spells it.

    Canonical JSON has no NaN, no integer beyond 64 bits and no lone surrogate. What cannot be written at
    all, being nested too deep, becomes words that are not JSON and so never pass for arguments.
    """
    try:
        spelt = encode(value)
        if orjson.loads(spelt) == value:
            return spelt.decode()
    except (TypeError, ValueError, RecursionError):  # orjson raises each of them, by input
        pass
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError):
        return _TOO_DEEP


def _content(content: Any) -> str | None:
    if not isinstance(content, list):
        return text_or_json(content)
    texts = []
    for part in content:
        text = part.get("text") if isinstance(part, Mapping) else part
        if isinstance(text, str):
            texts.append(text)
    return "".join(texts) if texts else None


def _call(item: Any) -> ToolCall:
    if not isinstance(item, Mapping):
        return _nameless(None, item)
    identity = text_or_json(item.get("id"))
    function = item.get("function")
    if not isinstance(function, Mapping):
        return _nameless(identity, item)
    name = text_or_json(function.get("name")) or ""
    arguments = function.get("arguments")
    if arguments is None or isinstance(arguments, str):
        return ToolCall(id=identity, name=name, arguments=arguments or "")
    return ToolCall(id=identity, name=name, arguments=json_text(arguments), was_object=True)


def _nameless(identity: str | None, found: Any) -> ToolCall:
    """A call that names no function: what was found is kept as its arguments, to show what stood there."""
    return ToolCall(id=identity, name="", arguments=json_text(found), was_object=True)
