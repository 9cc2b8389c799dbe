"""`causebook judge`: put a task before a panel, show it sit, say what it came to."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

from ...domain.conversation import brief_text
from ...domain.errors import IOFailure, Misuse, VersionConflict
from ...domain.events import PanelDecided, Phase
from ..attempt import Attempt
from ..judging import hear_panel, interrupted
from ..ledger import TaskHandle
from ..panel import Panel
from ..takeover import take_over, taken
from .case import Call, Case, read_case
from .judge_seals import Seals
from .progress import Progress
from .reading import at_ledger
from .terminal import err, json_page, out, warn
from .writing import bring_up_to_date, open_ledger, payload_of

HALTED: Final = {"blocked": 10, "escalated": 11, "validator_error": 12}
"""Raw halt type to exit code."""


def judge(
    call: Call,
    url: str,
    keys: str,
    passphrase_file: str | None,
    lock_timeout: float,
    *,
    as_json: bool,
) -> int:
    """Convene the panel and hear it; 0, 10, 11 or 12.

    A panel that sits is heard to its end even where what it does cannot be printed; then `IOFailure` or
    `ReaderGone` is raised, since the answer reached nobody.
    """
    case = read_case(call, url, keys, passphrase_file)
    with (
        _told_to_stop(),
        open_ledger(url, keys, passphrase_file, lock_timeout, ask_once=True) as ledger,
    ):
        page = err() if as_json else out()
        # First: nothing is asked of the log's key where this one is not at hand.
        ledger.writer.signer("engine")
        seals = Seals(ledger, lock_timeout)
        seals.check()
        task = ledger.task(case.task, spec=case.spec)
        attempt = attempt_to_judge(task, call.attempt, case.phase)
        try:
            with attempt.convene(
                case.phase,
                case.protocol.policy,
                case.protocol.judges,
                brief=brief_text(case.task, task.spec, case.base, case.change),
                base=case.base,
                root=str(case.workspace.root),
                workspace=case.facts,
            ) as panel:
                progress = Progress(page, panel.convened)
                decided = _hear(panel, case, progress, seals)
        finally:
            bring_up_to_date(ledger)
            seals.seal()
        raw = None if task.log.state.halted is None else task.log.state.halted.raw_halt_type
    try:
        if progress.failed is not None:
            raise progress.failed
        _tell_of_seals(seals, as_json=as_json)
        _tell(call.task, url, decided, raw, as_json=as_json)
    except IOFailure as error:
        raise IOFailure(
            f"{error.message}; the panel was heard to its end and decided: {decided.action}",
            hint=f"causebook why {call.task}{at_ledger(url)}",
        ) from None
    return 0 if raw is None else HALTED[raw]


@contextmanager
def _told_to_stop() -> Iterator[None]:
    """SIGTERM and SIGHUP as Ctrl-C: what is open is closed as interrupted, and not left to the next writer.

    Once one of the three came, none is heard again, so that neither the closing nor the exit code is cut
    short: the command ends. One that was ignored from the start (nohup) stays so.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    all_ = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    were = {number: signal.getsignal(number) for number in all_}
    kept = {number: was for number, was in were.items() if was not in (signal.SIG_IGN, None)}

    def stop(number: int, frame: FrameType | None) -> None:
        for each in kept:
            signal.signal(each, signal.SIG_IGN)
        kept.clear()
        raise KeyboardInterrupt

    for number in kept:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)


def _hear(panel: Panel, case: Case, progress: Progress, seals: Seals) -> PanelDecided:
    try:
        seals.seal()
        progress.begin(case.task)
        return hear_panel(panel, case.models, case.workspace, progress.turn)
    except KeyboardInterrupt:
        # The first moment of a panel that sits already, before it is heard.
        raise interrupted(panel) from None


def _tell_of_seals(seals: Seals, *, as_json: bool) -> None:
    if seals.missing and as_json:
        warn(f"not sealed: {seals.missing}")
    elif seals.missing:
        out().paragraph(("not sealed:", "warn"), seals.missing, hang=2)


def _tell(task: str, url: str, decided: PanelDecided, raw: str | None, *, as_json: bool) -> None:
    page = out()
    if as_json:
        page.raw(json_page(payload_of(url, task)))
        page.flush()
        return
    answer, style = {
        "proceed": ("passed", "good"),
        "log": ("passed, with a warn noted", "warn"),
        "escalate": ("halted: escalate", "warn"),
        "halt": (f"halted: {'blocker' if raw == 'blocked' else raw}", "bad"),
    }[decided.action]
    following = f"causebook why {task}{at_ledger(url)}"
    gap = min(page.width, 80) - len(answer) - page.cells(following)
    if gap >= 3:
        page.line((answer, style), " " * gap, following)
    else:
        page.line((answer, style))
        page.command("  ", following)
    page.flush()


def attempt_to_judge(task: TaskHandle, wanted: int | None, phase: Phase) -> Attempt:
    """The attempt to judge: see `_number`. It is started where it is not open; a dead panel is closed first.

    Where another process starts the same attempt meanwhile, it is joined so long as no panel sits.
    """
    log = task.log
    while True:
        if take_over(log):
            warn(f"task {log.task}: the panel of a runner that is gone was closed as interrupted")
        number = _number(task, wanted, phase)
        if number == log.state.attempt:
            return task.open_attempt()
        try:
            return task.start_attempt()
        except VersionConflict:
            if log.state.attempt != number or log.state.stage != "working":
                raise taken(log) from None


def _number(task: TaskHandle, wanted: int | None, phase: Phase) -> int:
    """The open attempt that waits for this phase, else the next. Raises `Misuse` where it is not `wanted`."""
    state = task.log.state
    name = task.log.task
    if state.stage == "completed":
        raise Misuse(
            f"task {name}: completed at attempt {state.attempt}; what is completed is not judged again",
            hint=f"causebook why {name}; more work on it is another task, {name}-2 say",
        )
    closed = state.stage in ("unopened", "between")
    expected = state.attempt + 1 if closed else state.attempt
    waits = state.stage == "working" and not {phase, "post_execute"} & set(state.phases)
    if not closed and not waits:
        raise Misuse(
            f"task {name}: attempt {expected} is open and does not wait for {phase}: "
            f"{_doing(state.stage, state.phases)}",
            hint=_way_out(name, state.stage),
        )
    if wanted is not None and wanted != expected:
        raise Misuse(
            f"--attempt: expected {expected}, found {wanted}",
            hint=f"attempt {expected} is {'the next' if closed else 'open'}; it is the default",
        )
    return expected


def _doing(stage: str, phases: list[Phase]) -> str:
    if stage == "waiting":
        return "it was escalated and waits for a person"
    if stage == "working":
        return f"{' and '.join(phases)} was judged in it"
    if stage == "judging":
        return "a panel sits"
    # What is due after a decision is stored with it: no writer of ours leaves it so.
    return "its panel has decided, and the record of what follows is missing"


def _way_out(task: str, stage: str) -> str:
    if stage == "waiting":
        return f"causebook resolve {task} --decision proceed|halt|reject --name NAME --meaning TEXT"
    return f"causebook why {task}"
