"""Real repeats: eight episodes of tau-bench in which an agent makes an identical call again."""

from __future__ import annotations

import json
from typing import Any

import pytest

from causebook.domain.reads import ReadMemory

from .shared import shared

EPISODES = 8
REPEATS = (4, 4, 1, 2, 1, 1, 2, 1)
"""How many calls of each episode were made before."""


def episode(number: int) -> list[dict[str, Any]]:
    path = shared("corpus", "tau-bench", "repeats-8-episodes.json")
    episodes: list[dict[str, Any]] = json.loads(path.read_text())
    assert len(episodes) == EPISODES
    messages: list[dict[str, Any]] = episodes[number]["traj"]
    return messages


@pytest.mark.parametrize("number", range(EPISODES))
def test_each_identical_call_is_a_repeat_of_the_turn_that_made_it_first_and_no_other_is(
    number: int,
) -> None:
    memory = ReadMemory()
    first_made: list[tuple[str, Any, int]] = []
    repeats = 0
    turn = 0
    for message in episode(number):
        if message["role"] != "assistant":
            continue
        turn += 1
        for made in message.get("tool_calls") or ():
            name = made["function"]["name"]
            arguments = json.loads(made["function"]["arguments"])
            earlier = [t for n, a, t in first_made if n == name and a == arguments]
            read = memory.read(name, arguments)
            found = memory.repeat_of(read)
            if earlier:
                assert found is not None
                assert (found.first_turn, found.match) == (earlier[0], "exact")
                repeats += 1
            else:
                assert found is None
                first_made.append((name, arguments, turn))
                memory.remember(read, turn=turn)
    assert repeats == REPEATS[number]
