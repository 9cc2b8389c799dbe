"""How a model's answer and its failures enter the record: within limits, by commitment past them.

Pure but for the `Committer`, which keeps the bytes. The same function runs at replay, over the evidence, with
a committer that gives the recorded commitments back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from .canonical import INTEGER_MAX, escaped_bytes
from .events import (
    Call,
    ModelCallFailed,
    ModelResponded,
    ToolChoiceDeclined,
    Withheld,
)
from .evidence import Committer, response_bytes, text_bytes
from .limits import (
    CALLS_MAX,
    NAME_BYTES_MAX,
    READ_ARGUMENT_BYTES_MAX,
    TURN_ARGUMENT_BYTES_MAX,
    VERDICT_ARGUMENT_BYTES_MAX,
)
from .ports import ModelFault, Response
from .tools import SUBMIT_VERDICT


def admit_response(
    response: Response, *, turn: int, try_number: int, required: str | None, commit: Committer
) -> ModelResponded:
    """The event that the model answered. `required`: the tool `tool_choice` asked for, if one was."""
    content = commit(response_bytes(response))
    calls = []
    room_bytes = TURN_ARGUMENT_BYTES_MAX
    for call in response.calls[:CALLS_MAX]:
        limit = min(_argument_bytes_max(call.name), room_bytes)
        arguments = _bounded(call.arguments, limit, commit)
        if isinstance(arguments, str):
            room_bytes -= escaped_bytes(arguments) or 0
        calls.append(
            Call(
                id=None if call.id is None else _bounded(call.id, NAME_BYTES_MAX, commit),
                name=_bounded(call.name, NAME_BYTES_MAX, commit),
                arguments=arguments,
                was_object=call.was_object,
            )
        )
    honoured = None
    if required is not None:
        honoured = any(call.name == required for call in response.calls)
    return ModelResponded(
        turn=turn,
        try_number=try_number,
        model=label(response.model),
        content=content,
        text_bytes=len(text_bytes(response.content or "")),
        calls=tuple(calls),
        calls_total=len(response.calls),
        prompt_tokens=_count(response.prompt_tokens),
        completion_tokens=_count(response.completion_tokens),
        milliseconds=_count(response.milliseconds) or 0,
        tool_choice_sent=response.tool_choice_sent,
        tool_choice_honoured=honoured,
        client=label(response.client),
        client_version=label(response.client_version),
    )


def misjudged_length(calls: Sequence[Call]) -> int | None:
    """The place of the first recorded call that stands and should not, or is withheld and need not be.

    None where each is as `admit_response` leaves it. A verdict withheld for its length, though it has none,
    would be asked for again.
    """
    room_bytes = TURN_ARGUMENT_BYTES_MAX
    for place, call in enumerate(calls):
        limit = min(_argument_bytes_max(call.name), room_bytes)
        if (
            _is_misjudged(call.arguments, limit)
            or _is_misjudged(call.name, NAME_BYTES_MAX)
            or _is_misjudged(call.id, NAME_BYTES_MAX)
        ):
            return place
        if isinstance(call.arguments, str):
            room_bytes -= escaped_bytes(call.arguments) or 0
    return None


def _argument_bytes_max(name: str | Withheld) -> int:
    return VERDICT_ARGUMENT_BYTES_MAX if name == SUBMIT_VERDICT else READ_ARGUMENT_BYTES_MAX


def _is_misjudged(text: str | Withheld | None, bytes_max: int) -> bool:
    # A character takes at most six bytes (an escape), so what is short need not be encoded to be counted, and
    # what is withheld was longer than a sixth of its limit.
    if text is None:
        return False
    if isinstance(text, Withheld):
        return text.why == "over_limit" and text.length * _ESCAPE_BYTES_MAX <= bytes_max
    if len(text) * _ESCAPE_BYTES_MAX <= bytes_max:
        return False
    return (escaped_bytes(text) or 0) > bytes_max


_ESCAPE_BYTES_MAX: Final = 6


def admit_fault(
    fault: ModelFault, *, turn: int, try_number: int, declined: bool, commit: Committer
) -> ModelCallFailed | ToolChoiceDeclined:
    """The event that one try failed; `declined`: it is asked again without `tool_choice` (rule 9)."""
    kind = ToolChoiceDeclined if declined else ModelCallFailed
    return kind(
        turn=turn,
        try_number=try_number,
        error=label(fault.error) or "other",
        status=_count(fault.status),
        retry_after_ms=_count(fault.retry_after_ms),
        detail=commit(text_bytes(fault.detail)) if fault.detail else None,
    )


def label(text: str, bytes_max: int = NAME_BYTES_MAX) -> str:
    """A name that another party chose, made fit for the record: Unicode scalar values, cut to its limit."""
    kept = "".join("\ufffd" if "\ud800" <= c <= "\udfff" else c for c in text[:bytes_max])
    while (escaped_bytes(kept) or 0) > bytes_max:
        kept = kept[:-1]
    return kept


def _bounded(text: str, bytes_max: int, commit: Committer) -> str | Withheld:
    length = escaped_bytes(text)
    if length is not None and length <= bytes_max:
        return text
    body = text_bytes(text)
    return Withheld(
        length=len(body),
        commitment=commit(body),
        why="not_unicode" if length is None else "over_limit",
    )


def _count(value: int | None) -> int | None:
    return None if value is None else max(0, min(value, INTEGER_MAX))
