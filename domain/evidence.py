"""Evidence: the bytes a record commits to, kept beside the log so that they can be erased.

A commitment is SHA-256(salt ‖ bytes), with 32 random bytes of salt for each item. With the salt gone too,
a short text cannot be guessed back from the record. `Committer` is the port by which the pure code names
bytes without knowing where their salt comes from.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from .events import (
    CoderDispatched,
    EvaluationOpened,
    Event,
    ModelCallFailed,
    ModelResponded,
    PanelConvened,
    ReadAnswered,
    TaskOpened,
    ToolChoiceDeclined,
    Withheld,
)
from .ports import Response, ToolCall

SALT_BYTES: Final = 32

Committer = Callable[[bytes], str]
"""Keeps the bytes as evidence and answers their commitment, 64 hex digits."""


@dataclass(frozen=True)
class Item:
    """One item of evidence, as it is kept."""

    commitment: str
    salt: bytes
    body: bytes

    def holds(self) -> bool:
        """Whether the commitment is that of the salt and the bytes."""
        return len(self.salt) == SALT_BYTES and commit(self.salt, self.body) == self.commitment


def commit(salt: bytes, body: bytes) -> str:
    """SHA-256(salt ‖ body), hex."""
    return hashlib.sha256(salt + body).hexdigest()


def text_bytes(text: str) -> bytes:
    """The bytes of any Python string: UTF-8, with lone surrogates kept (`surrogatepass`)."""
    return text.encode("utf-8", "surrogatepass")


def response_bytes(response: Response) -> bytes:
    """What a model answered, as evidence: ASCII JSON, so that a lone surrogate survives as `\\udXXX`.

    Holds what the rules look at, and `finish_reason`. Tokens and times are in the record already.
    """
    document = {
        "calls": [[c.id, c.name, c.arguments, c.was_object] for c in response.calls],
        "content": response.content,
        "finish_reason": response.finish_reason,
    }
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode("ascii")


def response_from(body: bytes) -> Response:
    """The answer that `response_bytes` wrote. Raises `ValueError` where the bytes are not that."""
    try:
        document: Any = json.loads(body)
        calls = tuple(ToolCall(i, name, text, flag) for i, name, text, flag in document["calls"])
        content, finish_reason = document["content"], document["finish_reason"]
    except (KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"not a model's answer: {error}") from None
    texts = [content, finish_reason, *(call.id for call in calls)]
    if not (
        isinstance(document["calls"], list)
        and all(text is None or isinstance(text, str) for text in texts)
        and all(isinstance(c.name, str) and isinstance(c.arguments, str) for c in calls)
        and all(isinstance(c.was_object, bool) for c in calls)
    ):
        raise ValueError("not a model's answer: texts and flags of other types")
    return Response(content=content, calls=calls, finish_reason=finish_reason)


def commitments_of(event: Event) -> tuple[str, ...]:
    """Every commitment that an event names, in order: what must lie beside the log, or be erased by name."""
    kind = type(event)
    if kind not in _COMMITTING:
        return ()
    match event:
        case ModelResponded():
            if not event.calls:
                return (event.content,)
            texts = (t for call in event.calls for t in (call.id, call.name, call.arguments))
            return (event.content, *(t.commitment for t in texts if isinstance(t, Withheld)))
        case ReadAnswered():
            return (event.result,)
        case EvaluationOpened():
            return event.prompt or ()
        case ModelCallFailed() | ToolChoiceDeclined():
            named = event.detail
        case PanelConvened() | CoderDispatched():
            named = event.brief
        case TaskOpened():
            named = event.spec
        case _:
            return ()
    return () if named is None else (named,)


_COMMITTING: Final = frozenset(
    {
        CoderDispatched,
        EvaluationOpened,
        ModelCallFailed,
        ModelResponded,
        PanelConvened,
        ReadAnswered,
        TaskOpened,
        ToolChoiceDeclined,
    }
)
