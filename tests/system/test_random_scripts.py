"""Random scripts of model behaviour, judged on a real SQLite ledger, against a second account of the rules.

The seeds are 0, 1, 2, …: the same scripts each time. `pytest tests/system --scripts 100000` judges more.
Where a script ends before its judge has decided the model fails for good, and for every seventh the runner
goes away (rule 10).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from causebook.adapters.ledger import Ledger
from causebook.adapters.models.retry import attempt as ask
from causebook.adapters.replay import replay
from causebook.adapters.seat import Judge, Seat
from causebook.adapters.store.snapshot import open_snapshot
from causebook.domain.limits import JUDGES_MAX
from causebook.domain.ports import Response
from causebook.domain.streams import evaluation_stream
from tests.adapters.ledgers import Home, events_of
from tests.domain.account import Account
from tests.domain.scripts import (
    Failure,
    Script,
    ScriptModel,
    Step,
    random_script,
)
from tests.domain.telling import as_account, keyed

SCRIPTS = 2_000
CHUNKS = 8

EXHAUSTED = Step(Response(None), (Failure("script_exhausted"),))


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_what_is_stored_agrees_with_a_second_account_and_replays_equal(
    chunk: int, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    seeds = range(chunk, pytestconfig.getoption("--scripts", default=SCRIPTS), CHUNKS)
    home = Home.found(f"sqlite:///{tmp_path / 'ledger.db'}", tmp_path)
    expected: dict[str, Account] = {}
    tasks = []
    with home.open() as ledger:
        for number, panel in enumerate(panels(seeds)):
            tasks.append(f"T-{number}")
            judge(ledger, tasks[-1], panel)
            for seed, script in panel.items():
                stream = evaluation_stream(tasks[-1], 1, script.phase, f"seed-{seed}")
                expected[stream] = account(seed, script)
    assert len(expected) == len(seeds)

    with open_snapshot(home.url) as snapshot:
        for stream, said in expected.items():
            assert as_account(events_of(snapshot.stream(stream))) == said, stream
        for task in tasks:
            report = replay(snapshot, task)
            assert (report.differences, report.note) == ((), ""), task
    assert home.require_intact().open_evaluations == ()


def panels(seeds: Iterable[int]) -> Iterator[dict[int, Script]]:
    """Seed to script, as many as may sit on one panel; those of a panel have phase and root in common."""
    waiting: dict[tuple[str, str | None], dict[int, Script]] = defaultdict(dict)
    for seed in seeds:
        script = random_script(Random(seed))
        panel = waiting[script.phase, script.root]
        panel[seed] = script
        if len(panel) == JUDGES_MAX:
            yield waiting.pop((script.phase, script.root))
    yield from waiting.values()


def is_broken_off(seed: int) -> bool:
    return seed % 7 == 0


def account(seed: int, script: Script) -> Account:
    """What the second account says of the script and of what follows where it runs out."""
    if not is_broken_off(seed):
        return keyed(replace(script, steps=(*script.steps, EXHAUSTED)).account())
    said = keyed(script.account())
    return said if said.ending else replace(said, ending=("error", "interrupted"))


def judge(ledger: Ledger, task: str, scripts: dict[int, Script]) -> None:
    """Put the scripts on one panel and hear them one after the other."""
    first = next(iter(scripts.values()))
    panel = (
        ledger.task(task)
        .start_attempt()
        .convene(
            first.phase,  # type: ignore[arg-type]
            "unanimous",
            [
                Judge(f"seed-{seed}", "script/1", ["It holds."], s.declared, s.max_tool_turns)
                for seed, s in scripts.items()
            ],
            root=first.root,
        )
    )
    for seed, script in scripts.items():
        turns = len(script.steps) if is_broken_off(seed) else len(script.steps) + 1
        hear(panel.open(f"seed-{seed}"), script, turns)
    if all(seat.closing is not None for seat in panel.seats.values()):
        panel.decide()
    else:
        panel.interrupt()


def hear(seat: Seat, script: Script, turns_max: int) -> None:
    model = ScriptModel(script)
    for _ in range(turns_max):
        request = seat.next_request()
        if request is None:
            return
        outcome = ask(model, request, sleep=lambda seconds: None, random=lambda: 0.0)
        failures = [(tried.fault, tried.declined_tool_choice) for tried in outcome.failures]
        if outcome.response is None:
            seat.fail(failures)
            continue
        for read in seat.respond(outcome.response, failures=failures):
            seat.answer(script.tree.read(read.tool, read.arguments))
