"""Bytes from outside, whatever they are: only named errors come out, and what is taken has one spelling.

Nothing is timed. That memory and work are bounded is counted: bytes allocated at once, and calls made.
"""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from . import inputs
from .mutations import CHANGES, changed, hostile, respelt
from .targets import KILOBYTES, TARGETS, Target

EVERY = pytest.mark.parametrize("name", TARGETS)
_NUMBERS = st.integers(0, 2**31 - 1)
_STEPS = st.lists(
    st.tuples(st.sampled_from(sorted(CHANGES)), _NUMBERS, _NUMBERS), min_size=1, max_size=4
)


def _examples(fast: int, slow: int) -> Callable[[str], settings]:
    """How many examples a target is worth, by what one of them costs."""

    def worth(name: str) -> settings:
        return settings(
            max_examples=slow if TARGETS[name].is_slow else fast,
            deadline=None,
            database=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        )

    return worth


@EVERY
def test_some_valid_input_is_taken_so_that_its_mutations_get_past_the_door(name: str) -> None:
    target = TARGETS[name]
    seeds = target.seeds()
    if not seeds:
        pytest.skip("not at hand: ../shared/vectors")
    if target.errors:
        assert any(target.attempt(seed) for seed in seeds)


@EVERY
def test_random_bytes_raise_what_is_named(name: str) -> None:
    target = TARGETS[name]

    @_examples(fast=50, slow=10)(name)
    @given(data=st.binary(max_size=2 * KILOBYTES))
    def attempt(data: bytes) -> None:
        target.attempt(data[: target.bytes_max])

    attempt()


@EVERY
def test_damaged_and_respelt_input_raises_what_is_named_or_is_what_it_is_written_as(
    name: str,
) -> None:
    target = TARGETS[name]
    seeds = target.seeds() or (b"",)

    @_examples(fast=120, slow=25)(name)
    @given(seed=st.sampled_from(seeds), steps=_STEPS, other=st.sampled_from(seeds))
    def attempt(seed: bytes, steps: list[tuple[str, int, int]], other: bytes) -> None:
        target.attempt(changed(seed, steps, other, bytes_max=target.bytes_max))

    attempt()


@EVERY
def test_every_number_text_and_value_respelt_raises_what_is_named_or_is_what_it_is_written_as(
    name: str,
) -> None:
    """In every way that `mutations.py` knows, one at a time: what chance alone may miss."""
    target = TARGETS[name]
    seeds = target.seeds()
    for seed in seeds[:: max(1, len(seeds) // (4 if target.is_slow else 8))]:
        for other in respelt(seed, places_max=2 if target.is_slow else 12):
            target.attempt(other[: target.bytes_max])


FOUND = {
    "a number of seconds beyond any float": (
        "protocol",
        b'policy = "any"\ntimeout_seconds = 1' + b"0" * 400 + b"\n"
        b'[[judge]]\nid = "a"\nmodel = "script:a"\ncriteria = ["a"]\n',
    ),
    "a key of 40,000 parts": ("protocol", b"a" + b".a" * 40_000 + b" = 1\n"),
    "an envelope without the end of its line": ("envelope", b"{}"),
    "a chunk of a negative length": (
        "answer to a submission",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\nabc\r\n",
    ),
}


@pytest.mark.parametrize("what", FOUND)
def test_what_once_got_through_is_named(what: str) -> None:
    name, data = FOUND[what]
    assert not TARGETS[name].attempt(data)


@pytest.mark.parametrize(
    ("before", "after"),
    [(b"\x0c\x04root", b"\x0f\x04root"), (b"\xa0\x03\x02\x01\x02", b"\xa0\x03\x02\x01\x22")],
)
def test_a_certificate_whose_subject_is_no_text_or_of_no_version_is_named(
    before: bytes, after: bytes
) -> None:
    """The first is told only when the subject is asked for; the second is an error of its own kind."""
    target = TARGETS["certificates"]
    honest = inputs.certificate()
    at = honest.rindex(before)
    assert target.attempt(honest)
    assert not target.attempt(honest[:at] + after + honest[at + len(before) :])


def test_a_pin_whose_format_is_true_is_none() -> None:
    """Python takes true for 1."""
    target = TARGETS["pin"]
    (honest, *_) = target.seeds()
    assert target.attempt(honest)
    assert not target.attempt(honest.replace(b'"format":1', b'"format":true'))


@EVERY
def test_memory_stays_within_a_multiple_of_the_input(name: str) -> None:
    """And whatever is 100 KB of one thing is answered at all."""
    target = TARGETS[name]
    seed = max(target.seeds() or (b"",), key=lambda each: len(each) < 4 * KILOBYTES)
    target.attempt(seed)  # what is loaded once, and kept
    target.attempt(b"")
    for what, data in hostile(seed, target.hostile_bytes):
        tracemalloc.start()
        try:
            target.attempt(data)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        allowed = target.memory_times * len(data) + target.memory_bytes
        assert peak <= allowed, f"{what}: {peak:,} bytes for {len(data):,} of input"


@EVERY
def test_twice_the_input_is_at_most_some_twice_the_work(name: str) -> None:
    """Counted in calls, of Python's functions and of those it is made of."""
    target = TARGETS[name]
    seed = min(target.seeds() or (b"",), key=len)
    size = min(target.hostile_bytes, target.bytes_max) // 2
    pairs = list(zip(hostile(seed, size), hostile(seed, 2 * size), strict=True))
    for (what, once), (_, twice) in pairs[:: 5 if target.is_slow else 1]:
        few, many = _calls(target, once), _calls(target, twice)
        assert many <= 2.5 * few + 20_000, f"{what}: {few:,} calls, then {many:,}"


def _calls(target: Target, data: bytes) -> int:
    count = 0

    def note(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        target.attempt(data)
    finally:
        sys.setprofile(before)
    return count
