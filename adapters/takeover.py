"""Closing what another runner left open (rule 10), and saying who has what is taken."""

from __future__ import annotations

from collections.abc import Sequence

from ..domain.errors import BadData, Busy
from ..domain.evaluation import Evaluation, interrupt, opening
from ..domain.events import (
    Ballot,
    EvaluationFailed,
    Event,
    Mandate,
    PanelConvened,
    PanelDecided,
    Runner,
    VerdictGiven,
)
from ..domain.quorum import decided
from ..domain.rederivation import Divergence, rederive
from ..domain.streams import evaluation_stream, parse_stream
from .task_log import Draft, TaskLog
from .writer import Written


def taken(log: TaskLog) -> Busy:
    """The error that another process judges this task, naming it."""
    panel = log.state.panel
    if log.state.stage == "judging" and panel is not None:
        return Busy(
            f"task {log.task}, attempt {panel.attempt}, {panel.phase}: judged by process "
            f"{panel.runner.process} on {panel.runner.host}",
            hint="wait for it to decide; if that process is gone, the next judge takes over",
        )
    return Busy(
        f"task {log.task}: another process changed it meanwhile",
        hint=f"causebook why {log.task}",
    )


def take_over(log: TaskLog) -> bool:
    """Close the panel of a runner that is gone (rule 10); True where that was done.

    Raises `Busy`, naming the runner, where it lives.
    """
    panel = log.state.panel
    if log.state.stage != "judging" or panel is None:
        return False
    lock = log.writer.store.try_lock(panel.runner.id)
    if lock is None:
        raise taken(log)
    try:
        closed = close(log, panel.runner)
    finally:
        lock.release()
    if not closed and log.state.stage == "judging":
        raise taken(log)
    return closed


def close(log: TaskLog, runner: Runner) -> bool:
    """Close the panel of `runner`, whose lock is ours; True where it still sat.

    It may have decided between our reading and its end, and another panel may sit by now: what is stored
    counts, and the lock is that of one runner alone.
    """
    log.reload()
    panel = log.state.panel
    if log.state.stage != "judging" or panel is None or panel.runner.id != runner.id:
        return False
    with log.transaction() as draft:
        ballots = [_closed(log, draft, panel, mandate) for mandate in panel.judges]
        decide(draft, panel, ballots)
    return True


def decide(draft: Draft, panel: PanelConvened, ballots: Sequence[Ballot]) -> PanelDecided:
    """Add the decision that the ballots come to, and what follows from it."""
    event = decided(panel.attempt, panel.phase, panel.policy, ballots)
    draft.add(event)
    draft.follow()
    return event


def ballot(judge: str, closing: Written) -> Ballot:
    """What the record that closed its evaluation comes to."""
    event = closing.event
    if not isinstance(event, VerdictGiven | EvaluationFailed):
        raise ValueError(f"{event.kind()} does not close an evaluation")
    return Ballot(
        judge=judge,
        severity=event.severity,
        error=isinstance(event, EvaluationFailed),
        stream=closing.stream,
        version=closing.version,
        digest=closing.digest,
    )


def _closed(log: TaskLog, draft: Draft, panel: PanelConvened, mandate: Mandate) -> Ballot:
    """The ballot of one judge convened: its own, or that of an evaluation closed here, opened if need be."""
    stream = evaluation_stream(log.task, panel.attempt, panel.phase, mandate.judge)
    entries = log.writer.read(stream, anchor=log.panel_digest)
    batch = draft.batch
    if not entries:
        opened = opening(log.task, panel, mandate, None, None)
        batch.add(stream, opened, anchor=log.panel_digest)
        evaluation = Evaluation(opened)
    else:
        evaluation = _derived(stream, [event for _, event in entries])
        record, last = entries[-1]
        if isinstance(last, VerdictGiven | EvaluationFailed):
            return ballot(mandate.judge, Written(stream, record.version, last, record.digest))
        batch.after(stream, (record.version, record.digest))
    (failed,) = interrupt(evaluation)
    return ballot(mandate.judge, batch.add(stream, failed))


def _derived(stream: str, events: Sequence[Event]) -> Evaluation:
    derived = rederive(parse_stream(stream), events)
    if isinstance(derived, Divergence):
        raise BadData(
            f"{stream} v{derived.version}: expected {derived.expected}, found {derived.found}",
            hint="causebook verify says what is wrong with the ledger",
        )
    return derived
