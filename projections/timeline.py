"""An evaluation turn by turn: what was offered, what was called, what it cost, and how it ended.

One row for each evaluation; the key is its stream. A turn is

    turn          its number, from 1
    offered       the tools it was offered
    withdrawn     why the read tools are gone from this turn on, or null: reason, tools, and the counts that
                  stood then, turns_used and stall
    tool_choice   asked: the tool required, or null; sent: whether the request that was answered carried it;
                  declined: whether the provider refused it (rule 9); honoured: null where nothing was asked
    failed_tries  tries that brought no answer: try, error, status, retry_after_ms, declined_tool_choice
    model, text_bytes, calls_total, prompt_tokens, completion_tokens, milliseconds
                  of the answer; null where none came
    calls         one item for each call, by place, and one of place null where nothing was called; below
    account       `charged` or `spared`; null for a turn that has not ended, or that rule 8 or 10 ended
    reasons       why it was charged
    turns_used, stall
                  the counts after it

A call's `disposition` is one of

    fresh, failed   a read that was run; failed: the tool answered with an error. `lines` and `cut` are of the
                    answer
    repeat          answered with a pointer to `first_turn`; `match` is exact or contained
    refused         never run; `reason`, `detail`
    rejected        a submit_verdict that is no verdict; `reason`, `detail`
    ignored         beside a verdict, or past the 64th: `count` calls from this place on; `reason`
    verdict         the one that closed the evaluation; `severity`
    narration       nothing was called: prose or silence

and the keys that say nothing about it are null. `ending` is null while the evaluation is open; its `rules`
are the numbers of the rules of `domain/evaluation.py` that ended it so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ..domain.canonical import encode
from ..domain.events import (
    CallIgnored,
    EvaluationFailed,
    Event,
    ModelCallFailed,
    ModelResponded,
    Narrated,
    ReadAnswered,
    RepeatReadHit,
    ToolChoiceDeclined,
    ToolRefused,
    ToolsWithdrawn,
    TurnCharged,
    TurnOpened,
    TurnSpared,
    VerdictGiven,
    VerdictRejected,
)
from ..domain.tools import SUBMIT_VERDICT
from .account import Account, account
from .facts import Entry, TaskFacts

NAME: Final = "timeline"
VERSION: Final = 1


def rows(facts: TaskFacts) -> Mapping[str, bytes]:
    """Evaluation stream to timeline."""
    return {stream: encode(timeline(entries)) for stream, entries in facts.evaluations.items()}


def timeline(entries: Sequence[Entry[Event]]) -> dict[str, Any]:
    """The timeline of an evaluation's stream, which is not empty.

    Raises `BadData` where it does not begin with `EvaluationOpened`.
    """
    summed = account(entries)
    opened, state = summed.opened.event, summed.state
    turns: dict[int, dict[str, Any]] = {}
    turns_used = stall = 0
    names: list[str | None] = []
    for entry in entries:
        if isinstance(entry.event, ModelResponded):
            names = [c.name if isinstance(c.name, str) else None for c in entry.event.calls]
        number = getattr(entry.event, "turn", None)
        if number is None:
            continue
        turn = turns.setdefault(number, _blank(number, turns_used, stall))
        _fold(turn, entry.event, names)
        turns_used, stall = turn["turns_used"], turn["stall"]
    for turn in turns.values():
        # A verdict is said after the calls beside it, and a turn is read in the order of its calls.
        turn["calls"].sort(key=lambda call: -1 if call["call"] is None else call["call"])
    return {
        "evaluation": summed.stream,
        "task": opened.task,
        "attempt": opened.attempt,
        "phase": opened.phase,
        "judge": opened.judge,
        "law": opened.law,
        "model": opened.model,
        "max_tool_turns": opened.max_tool_turns,
        "max_stall_turns": opened.max_stall_turns,
        "tools": list(state.tools),
        "turns": list(turns.values()),
        "turns_used": state.turns_used,
        "stall": state.stall,
        "ending": _ending(summed, turns),
    }


def _blank(number: int, turns_used: int, stall: int) -> dict[str, Any]:
    return {
        "turn": number,
        "offered": [],
        "withdrawn": None,
        "tool_choice": {"asked": None, "sent": None, "declined": False, "honoured": None},
        "failed_tries": [],
        "model": None,
        "text_bytes": None,
        "calls_total": None,
        "prompt_tokens": None,
        "completion_tokens": None,
        "milliseconds": None,
        "calls": [],
        "account": None,
        "reasons": [],
        "turns_used": turns_used,
        "stall": stall,
    }


def _fold(turn: dict[str, Any], event: Event, names: Sequence[str | None]) -> None:
    match event:
        case ToolsWithdrawn():
            turn["withdrawn"] = {
                "reason": event.reason,
                "tools": list(event.withdrawn),
                "turns_used": event.turns_used,
                "stall": event.stall,
            }
        case TurnOpened():
            turn["offered"] = list(event.offered)
            turn["tool_choice"]["asked"] = event.tool_choice
        case ModelCallFailed() | ToolChoiceDeclined():
            declined = isinstance(event, ToolChoiceDeclined)
            turn["tool_choice"]["declined"] |= declined
            turn["failed_tries"].append(
                {
                    "try": event.try_number,
                    "error": event.error,
                    "status": event.status,
                    "retry_after_ms": event.retry_after_ms,
                    "declined_tool_choice": declined,
                }
            )
        case ModelResponded():
            _respond(turn, event)
        case TurnCharged():
            turn["account"], turn["reasons"] = "charged", list(event.reasons)
            turn["turns_used"], turn["stall"] = event.turns_used, 0
        case TurnSpared():
            turn["account"], turn["stall"] = "spared", event.stall
        case _:
            call = _call(event, names)
            if call is not None:
                turn["calls"].append(call)


def _respond(turn: dict[str, Any], event: ModelResponded) -> None:
    turn.update(
        model=event.model,
        text_bytes=event.text_bytes,
        calls_total=event.calls_total,
        prompt_tokens=event.prompt_tokens,
        completion_tokens=event.completion_tokens,
        milliseconds=event.milliseconds,
    )
    turn["tool_choice"]["sent"] = event.tool_choice_sent
    turn["tool_choice"]["honoured"] = event.tool_choice_honoured


_CALL: Final[Mapping[str, Any]] = dict.fromkeys(
    (
        *("call", "count", "tool", "target", "disposition", "first_turn", "match"),
        *("reason", "detail", "lines", "cut", "severity"),
    )
)


def _call(event: Event, names: Sequence[str | None]) -> dict[str, Any] | None:
    match event:
        case ReadAnswered():
            said: dict[str, Any] = {
                "tool": event.tool,
                "target": event.target,
                "disposition": "failed" if event.error else "fresh",
                "lines": None if event.lines is None else list(event.lines),
                "cut": event.cut,
            }
        case RepeatReadHit():
            said = {
                "tool": event.tool,
                "target": event.target,
                "disposition": "repeat",
                "first_turn": event.first_turn,
                "match": event.match,
            }
        case ToolRefused():
            said = {"disposition": "refused", "reason": event.reason, "detail": event.detail}
        case VerdictRejected():
            said = {"disposition": "rejected", "reason": event.reason, "detail": event.detail}
        case CallIgnored():
            said = {"disposition": "ignored", "reason": event.reason, "count": event.count}
        case VerdictGiven():
            said = {"tool": SUBMIT_VERDICT, "disposition": "verdict", "severity": event.severity}
        case Narrated():
            return {**_CALL, "disposition": "narration"}
        case _:
            return None
    # What the model called is in its answer; a name over the limits, or past the 64th call, is not.
    tool = names[event.call] if event.call < len(names) else None
    return {**_CALL, "call": event.call, "count": 1, "tool": tool, **said}


def _ending(summed: Account, turns: Mapping[int, dict[str, Any]]) -> dict[str, Any] | None:
    if summed.closing is None:
        return None
    closing = summed.closing.event
    last = turns.get(summed.state.turn)
    if isinstance(closing, EvaluationFailed):
        error, cause = True, closing.cause
        rules = {"no_verdict": [4], "provider_fault": [8], "interrupted": [10]}[cause]
    else:
        error, cause, rules = False, None, [3]
    if summed.state.withdrawn and cause not in ("provider_fault", "interrupted"):
        rules = sorted([1, 2, *rules])
    if last is not None and last["tool_choice"]["declined"] and closing.turn is not None:
        rules = [*rules, 9]
    return {
        "turn": closing.turn,
        "severity": closing.severity,
        "error": error,
        "cause": cause,
        "justification": closing.justification,
        "rules": rules,
        "at": summed.closing.record.at,
        "digest": summed.closing.record.digest,
        "version": summed.closing.record.version,
    }
