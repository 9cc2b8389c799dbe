"""The retry policy: how often a model is asked, how long is waited, and when asking ends."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from causebook.adapters.models.retry import WAIT_SECONDS_MAX, Outcome, attempt
from causebook.domain.ports import ModelFault, Request, Response

FREE = Request("m", ({"role": "user", "content": "?"},), (), None)
FORCED = Request("m", ({"role": "user", "content": "?"},), (), "submit_verdict")


@dataclass
class Fake:
    """A model with its answers given, a clock that only sleeping moves, and jitter at its largest."""

    steps: list[ModelFault | Response]
    jitter: float = 1.0
    oversleep_seconds: float = 0.0
    asked: list[Request] = field(default_factory=list)
    slept: list[float] = field(default_factory=list)
    now: float = 0.0

    def complete(self, request: Request) -> Response:
        self.asked.append(request)
        step = self.steps.pop(0)
        if isinstance(step, ModelFault):
            raise step
        return step

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds + self.oversleep_seconds


ANSWER = Response("fine")


def fault(retry_after_ms: int | None = None, *, retryable: bool = True) -> ModelFault:
    return ModelFault("server", status=503, retryable=retryable, retry_after_ms=retry_after_ms)


def declined() -> ModelFault:
    return ModelFault("bad_request", status=400, declines_tool_choice=True)


def run(fake: Fake, request: Request = FREE) -> Outcome:
    return attempt(
        fake, request, sleep=fake.sleep, random=lambda: fake.jitter, clock=lambda: fake.now
    )


def test_an_answer_at_once_is_the_first_try() -> None:
    fake = Fake([ANSWER])
    outcome = run(fake)
    assert (outcome.response, outcome.failures, outcome.try_number) == (ANSWER, (), 1)
    assert fake.slept == []


def test_three_tries_with_doubling_waits_and_then_no_more() -> None:
    fake = Fake([fault(), fault(), fault(), ANSWER])
    outcome = run(fake)
    assert outcome.response is None
    assert [f.try_number for f in outcome.failures] == [1, 2, 3]
    assert outcome.try_number == 3
    assert fake.slept == [1.0, 2.0]


def test_the_third_try_can_answer() -> None:
    outcome = run(Fake([fault(), fault(), ANSWER]))
    assert outcome.response is ANSWER
    assert outcome.try_number == 3


def test_jitter_is_full() -> None:
    fake = Fake([fault(), fault(), ANSWER], jitter=0.0)
    run(fake)
    assert fake.slept == [0.0, 0.0]


def test_a_fault_that_no_try_can_cure_ends_at_once() -> None:
    fake = Fake([fault(retryable=False), ANSWER])
    outcome = run(fake)
    assert outcome.response is None
    assert len(fake.asked) == 1
    assert fake.slept == []


def test_retry_after_is_waited_for_where_it_is_the_longer() -> None:
    fake = Fake([fault(2_500), fault(100), ANSWER])
    assert run(fake).response is ANSWER
    assert fake.slept == [2.5, 2.0]


@pytest.mark.parametrize("waits_ms", [[30_001], [2**53 - 1], [20_000, 10_001]])
def test_a_retry_after_beyond_what_is_left_fails_at_once(waits_ms: list[int]) -> None:
    fake = Fake([*map(fault, waits_ms), ANSWER])
    outcome = run(fake)
    assert outcome.response is None
    assert len(outcome.failures) == len(waits_ms)
    assert len(fake.slept) == len(waits_ms) - 1


def test_a_retry_after_of_all_that_is_left_is_honoured() -> None:
    fake = Fake([fault(20_000), fault(10_000), ANSWER])
    assert run(fake).response is ANSWER
    assert sum(fake.slept) == WAIT_SECONDS_MAX


def test_backoff_stays_within_what_is_left() -> None:
    fake = Fake([fault(29_500), fault(), ANSWER])
    assert run(fake).response is ANSWER
    assert fake.slept == [29.5, 0.5]


def test_a_sleep_that_lasted_too_long_uses_up_the_waiting() -> None:
    fake = Fake([fault(), fault(), ANSWER], oversleep_seconds=3_600)
    outcome = run(fake)
    assert outcome.response is None
    assert len(outcome.failures) == 2


def test_a_negative_retry_after_is_ignored() -> None:
    fake = Fake([fault(-5_000), ANSWER])
    run(fake)
    assert fake.slept == [1.0]


def test_a_declined_tool_choice_is_asked_again_at_once_without_it() -> None:
    fake = Fake([declined(), ANSWER])
    outcome = run(fake, FORCED)
    assert outcome.response is ANSWER
    assert outcome.try_number == 2
    assert [f.declined_tool_choice for f in outcome.failures] == [True]
    assert [r.tool_choice for r in fake.asked] == ["submit_verdict", None]
    assert fake.asked[1].messages == FORCED.messages
    assert fake.slept == []


def test_declining_uses_up_none_of_the_three_tries() -> None:
    fake = Fake([fault(), declined(), fault(), fault(), ANSWER])
    outcome = run(fake, FORCED)
    assert outcome.response is None
    assert [(f.try_number, f.declined_tool_choice) for f in outcome.failures] == [
        (1, False),
        (2, True),
        (3, False),
        (4, False),
    ]
    assert [r.tool_choice for r in fake.asked] == ["submit_verdict"] * 2 + [None] * 2


def test_declining_happens_once_a_turn() -> None:
    fake = Fake([declined(), declined(), ANSWER])
    outcome = run(fake, FORCED)
    assert outcome.response is None
    assert [f.declined_tool_choice for f in outcome.failures] == [True, False]


def test_what_is_no_fault_of_the_model_is_not_caught() -> None:
    class Broken:
        def complete(self, request: Request) -> Response:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        attempt(Broken(), FREE, sleep=lambda _: None)
