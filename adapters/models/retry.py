"""How often a model is asked, and when asking ends: the loop's own policy, so that every try is an event.

- A turn has 3 tries. Between two of them lies a wait with full jitter: a random part of a ceiling that begins
  at 1 s, doubles, and stays within 10 s; of all waits of a turn together, within 30 s.
- A provider that says how long to wait (`Retry-After`) is waited for, where what is left of the 30 s allows
  it; else the turn fails at once, since asking sooner would only be refused again.
- A fault that another try cannot cure ends the turn at once.
- A provider that declines `tool_choice` (rule 9) is asked again at once without it, the same messages
  kept. That can happen once a turn, at any of the tries, and uses up none of the 3: the question that
  failed was another one. It is numbered in sequence with the others, so a turn has at most 4 tries.
"""

from __future__ import annotations

import random as _random
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from ...domain.ports import Model, ModelFault, Request, Response

TRIES_MAX: Final = 3
BACKOFF_BASE_SECONDS: Final = 1.0
BACKOFF_SECONDS_MAX: Final = 10.0
WAIT_SECONDS_MAX: Final = 30.0
"""The longest sum of the waits of one turn."""


@dataclass(frozen=True)
class FailedTry:
    """One try that brought no answer. `try_number` counts from 1 within the turn.

    `declined_tool_choice`: the provider refused `tool_choice`, and the next try goes without it.
    """

    try_number: int
    fault: ModelFault
    declined_tool_choice: bool = False


@dataclass(frozen=True)
class Outcome:
    """What asking a model came to: the tries that failed, in order, and the answer, or None for good.

    `try_number` is that of the answer, or of the last try where there is none.
    """

    failures: tuple[FailedTry, ...]
    response: Response | None
    try_number: int


def attempt(
    model: Model,
    request: Request,
    *,
    sleep: Callable[[float], object] = time.sleep,
    random: Callable[[], float] = _random.random,
    clock: Callable[[], float] = time.monotonic,
) -> Outcome:
    """Ask `model` until it answers or the policy above ends it. Raises nothing of the model's.

    `sleep` takes seconds; `random` gives a number from 0 up to 1; `clock` gives seconds that only grow. A
    sleep that lasted longer than asked, as over a suspended machine, uses up the 30 s by what it lasted.
    """
    failures: list[FailedTry] = []
    waited_seconds = 0.0
    backoffs = 0
    while True:
        try_number = len(failures) + 1
        try:
            response = model.complete(request)
        except ModelFault as fault:
            declined = fault.declines_tool_choice and request.tool_choice is not None
            failures.append(FailedTry(try_number, fault, declined))
            if declined:
                request = replace(request, tool_choice=None)
                continue
            backoffs += 1
            wait_seconds = _wait(fault, backoffs, WAIT_SECONDS_MAX - waited_seconds, random)
            if wait_seconds is None:
                return Outcome(tuple(failures), None, try_number)
            before = clock()
            sleep(wait_seconds)
            waited_seconds += max(wait_seconds, clock() - before)
        else:
            return Outcome(tuple(failures), response, try_number)


def _wait(
    fault: ModelFault, backoffs: int, left_seconds: float, random: Callable[[], float]
) -> float | None:
    """Seconds to wait before the next try, or None where there is to be none."""
    if not fault.retryable or backoffs >= TRIES_MAX or left_seconds < 0:
        return None
    asked_seconds = max(fault.retry_after_ms or 0, 0) / 1000
    if asked_seconds > left_seconds:
        return None
    ceiling = min(BACKOFF_SECONDS_MAX, BACKOFF_BASE_SECONDS * 2.0 ** (backoffs - 1), left_seconds)
    return max(asked_seconds, random() * ceiling)
