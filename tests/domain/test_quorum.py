"""The law of a panel, against an account of it in fractions."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from causebook.domain.events import Ballot, HaltType, Policy, RawHaltType, Severity
from causebook.domain.quorum import (
    CANONICAL,
    PANEL_HALTS,
    decide,
    decided,
    halt_reason,
    outcome,
    required_passes,
)

POLICIES: tuple[Policy, ...] = get_args(Policy)
TOTAL_MAX = 12


def ballot(judge: str, severity: Severity, *, error: bool = False) -> Ballot:
    return Ballot(
        judge=judge,
        severity=severity,
        error=error,
        stream=f"evaluation/T-1/1/post_execute/{judge}",
        version=7,
        digest="a" * 64,
    )


def ballots(passes: int, warns: int, blockers: int, errors: int) -> list[Ballot]:
    kinds: list[tuple[Severity, bool]] = [("pass", False)] * passes
    kinds += [("warn", False)] * warns
    kinds += [("blocker", False)] * blockers
    kinds += [("blocker", True)] * errors
    return [ballot(f"j{n}", severity, error=error) for n, (severity, error) in enumerate(kinds)]


def falls() -> Iterator[tuple[int, int, int, int]]:
    """Every way the ballots of up to `TOTAL_MAX` judges can fall."""
    for total in range(TOTAL_MAX + 1):
        for passes in range(total + 1):
            for warns in range(total - passes + 1):
                for blockers in range(total - passes - warns + 1):
                    yield passes, warns, blockers, total - passes - warns - blockers


def met(policy: str, passes: int, total: int) -> bool:
    share = Fraction(passes, total)
    match policy:
        case "unanimous":
            return share == 1
        case "majority":
            return share > Fraction(1, 2)
        case "quorum":
            return share >= Fraction(67, 100)
        case _:
            return passes >= 1


def by_the_book(
    policy: str, passes: int, warns: int, blockers: int, errors: int
) -> tuple[str, str | None]:
    total = passes + warns + blockers + errors
    if total == 0 or errors:
        return "halt", "validator_error"
    if blockers:
        return "halt", "blocked"
    if not met(policy, passes, total):
        return "escalate", "escalated"
    return ("log" if warns else "proceed"), None


@pytest.mark.parametrize("policy", POLICIES)
def test_every_fall_of_the_ballots_comes_to_what_the_book_says(policy: Policy) -> None:
    for fall in falls():
        passes, warns, blockers, errors = fall
        heard = ballots(*fall)
        found = decide(policy, heard)
        assert (found.action, found.raw_halt_type) == by_the_book(policy, *fall), fall
        counts = found.counts
        assert (counts.pass_, counts.warn) == (passes, warns)
        assert counts.blocker == blockers + errors
        assert counts.total == len(heard)
        assert found.blocker_validators == tuple(b.judge for b in heard[passes + warns :])


@pytest.mark.parametrize("policy", POLICIES)
def test_required_is_the_least_number_of_passes_that_meets_the_policy(policy: Policy) -> None:
    for total in range(1, 33):
        least = next(n for n in range(total + 1) if met(policy, n, total))
        assert required_passes(policy, total) == least


@pytest.mark.parametrize(("total", "least"), [(3, 3), (4, 3), (10, 7), (1, 1), (2, 2), (100, 67)])
def test_a_quorum_is_67_of_100_exactly(total: int, least: int) -> None:
    assert required_passes("quorum", total) == least


@given(
    policy=st.sampled_from(POLICIES),
    fall=st.lists(st.sampled_from(["pass", "warn", "blocker", "error"]), max_size=12),
    rng=st.randoms(use_true_random=False),
)
def test_the_order_of_the_ballots_decides_nothing(
    policy: Policy, fall: list[str], rng: object
) -> None:
    heard = ballots(*(fall.count(kind) for kind in ("pass", "warn", "blocker", "error")))
    shuffled = list(heard)
    rng.shuffle(shuffled)  # type: ignore[attr-defined]
    one, other = decide(policy, heard), decide(policy, shuffled)
    assert (one.action, one.raw_halt_type, one.counts, one.required) == (
        other.action,
        other.raw_halt_type,
        other.counts,
        other.required,
    )
    assert sorted(one.blocker_validators) == sorted(other.blocker_validators)


@pytest.mark.parametrize("policy", POLICIES)
def test_no_policy_overrides_a_blocker_or_an_error(policy: Policy) -> None:
    assert decide(policy, ballots(11, 0, 1, 0)).raw_halt_type == "blocked"
    assert decide(policy, ballots(11, 0, 0, 1)).raw_halt_type == "validator_error"
    assert decide(policy, ballots(0, 0, 1, 1)).raw_halt_type == "validator_error"


def test_the_event_says_what_was_decided() -> None:
    event = decided(2, "pre_execute", "majority", ballots(2, 1, 0, 0))
    assert (event.attempt, event.phase, event.policy) == (2, "pre_execute", "majority")
    assert (event.action, event.required) == ("log", 2)
    assert event.data()["counts"] == {"pass": 2, "warn": 1, "blocker": 0, "total": 3}
    assert [b.judge for b in event.ballots] == ["j0", "j1", "j2"]


def test_there_is_no_count_of_judges_that_gave_no_verdict() -> None:
    assert set(decided(1, "pre_execute", "any", ballots(1, 1, 1, 1)).data()["counts"]) == {
        "pass",
        "warn",
        "blocker",
        "total",
    }


def test_an_attempts_outcome_is_the_worst_of_its_ballots() -> None:
    for fall in falls():
        _, warns, blockers, errors = fall
        worst = "error" if errors else "blocked" if blockers else "warned" if warns else "passed"
        assert outcome(ballots(*fall), None) == worst


@pytest.mark.parametrize("halt", get_args(HaltType))
def test_an_engines_halt_makes_the_outcome_blocked_or_error(halt: HaltType) -> None:
    for fall in ((3, 0, 0, 0), (1, 1, 0, 0), (0, 0, 0, 0)):
        assert outcome(ballots(*fall), halt) == ("blocked" if halt == "blocker" else "error")


def test_the_halt_vocabulary_is_that_of_the_law() -> None:
    table = {
        "escalate": {"escalated"},
        "blocker": {
            "blocked",
            "constraint",
            "wf3",
            "max_iterations",
            "recovery_exhausted",
            "recovery_stalled",
            "head_not_moved",
            "no_file_operations",
        },
        "validator_error": {"validator_error"},
        "environment_error": {"execution_error", "environment_error", "turn_budget_exhausted"},
        "internal_error": {"internal_error"},
    }
    assert {c: {r for r in CANONICAL if CANONICAL[r] == c} for c in CANONICAL.values()} == table
    assert set(CANONICAL) == set(get_args(RawHaltType))
    assert {"escalated", "blocked", "validator_error"} == PANEL_HALTS


@pytest.mark.parametrize(
    ("fall", "reason"),
    [
        ((1, 0, 0, 1), "j1 gave no verdict, which is an error and counts as a blocker."),
        (
            (0, 0, 0, 3),
            "j0, j1 and j2 gave no verdict, each of which is an error and counts as a blocker.",
        ),
        ((1, 0, 1, 0), "j1 found a blocker."),
        ((0, 1, 2, 0), "j1 and j2 found a blocker."),
        ((1, 2, 0, 0), "quorum needs 3 of 3 to pass, and 1 did: a person decides."),
        ((0, 0, 0, 0), "No judge was heard, which is an error."),
    ],
)
def test_a_halt_says_why_in_words(fall: tuple[int, int, int, int], reason: str) -> None:
    assert halt_reason(decided(1, "post_execute", "quorum", ballots(*fall))) == reason
