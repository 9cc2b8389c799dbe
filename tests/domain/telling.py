"""A stream of events told in the words of the second account, so that the two can be compared."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from causebook.domain.events import (
    CallIgnored,
    EvaluationFailed,
    Event,
    ModelResponded,
    Narrated,
    ReadAnswered,
    RepeatReadHit,
    ToolRefused,
    ToolsWithdrawn,
    TurnCharged,
    TurnSpared,
    VerdictGiven,
    VerdictRejected,
)

from .account import Account, TurnAccount

WORDS = {
    "not_offered": "not offered",
    "withdrawn": "withdrawn",
    "over_limit": "limit",
    "not_unicode": "unicode",
    "arguments_not_json": "broken",
    "arguments_not_object": "no object",
    "arguments_duplicate_keys": "twice",
    "arguments_unfit": "unfit",
    "severity": "severity",
    "justification": "justification",
    "conflicting": "differ",
}
"""Why a call was refused or rejected: the record's word, and the account's."""


def as_account(events: Sequence[Event]) -> Account:
    """What a stream of events says, in the words of the second account."""
    turns: list[TurnAccount] = []
    ending: tuple[str, ...] | None = None
    used = stall = 0
    withdrawn: str | None = None
    charged: bool | None = None
    outcomes: dict[int, tuple[Any, ...]] = {}
    total = 0

    def end_turn() -> None:
        told = [outcomes[place] for place in sorted(outcomes)]
        turns.append(TurnAccount(withdrawn, tuple(told), charged, used, stall))

    open_turn_number = 0
    for event in events:
        number = getattr(event, "turn", None)
        if number is not None and number != open_turn_number:
            if open_turn_number:
                end_turn()
            open_turn_number, withdrawn, charged, outcomes = number, None, None, {}
        match event:
            case ToolsWithdrawn():
                withdrawn = event.reason
            case ModelResponded():
                total = len(event.calls)
            case ReadAnswered():
                outcomes[event.call] = ("fresh", event.tool, event.key, event.error)
            case RepeatReadHit():
                outcomes[event.call] = ("repeat", event.match, event.first_turn)
            case ToolRefused():
                outcomes[event.call] = ("refused", WORDS[event.reason])
            case VerdictRejected():
                outcomes[event.call] = ("rejected", WORDS[event.reason])
            case CallIgnored(reason="beside_verdict"):
                outcomes[event.call] = ("ignored",)
            case CallIgnored():
                outcomes[total] = ("beyond", event.count)
            case Narrated():
                outcomes[0] = ("narrated",)
            case TurnCharged():
                charged, used, stall = True, event.turns_used, 0
            case TurnSpared():
                charged, stall = False, event.stall
            case VerdictGiven():
                outcomes[event.call] = ("taken",)
                ending = ("verdict", event.severity, event.justification)
            case EvaluationFailed():
                ending = ("error", event.cause)
            case _:
                pass
    if open_turn_number:
        end_turn()
    return Account(tuple(turns), ending)


def keyed(account: Account) -> Account:
    """The account with each fresh read's arguments as the key an event holds."""
    turns = []
    for turn in account.turns:
        outcomes = []
        for outcome in turn.outcomes:
            if outcome[0] == "fresh":
                identity = json.dumps(
                    outcome[1:3], sort_keys=True, separators=(",", ":"), ensure_ascii=False
                )
                key = hashlib.sha256(identity.encode()).hexdigest()
                outcome = ("fresh", outcome[1], key, outcome[3])
            outcomes.append(outcome)
        turns.append(replace(turn, outcomes=tuple(outcomes)))
    return Account(tuple(turns), account.ending)
