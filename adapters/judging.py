"""Hearing a panel: its judges side by side, each asking its own model and reading one workspace.

One thread a judge, because a model call blocks for as long as it likes; the caller's thread waits, shows
progress and takes the person's Ctrl-C. Every turn is stored before the next model call.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ..domain.errors import Interrupted
from ..domain.events import PanelDecided
from ..domain.ports import Model, Workspace
from .models.retry import attempt as ask
from .panel import Panel
from .seat import Abandoned, Seat
from .writer import Written

OnTurn = Callable[[str, list[Written]], None]
"""Told, in the caller's thread, of each turn stored: the judge, and the turn's records."""


class _Stopped(Exception):
    """It was told to stop while it waited to ask again."""


@dataclass(frozen=True)
class _News:
    """What a judge's thread tells the caller's: a turn stored, or its end (`written` is None)."""

    judge: str
    written: list[Written] | None
    error: BaseException | None = None


def hear_panel(
    panel: Panel,
    models: Mapping[str, Model],
    workspace: Workspace,
    on_turn: OnTurn = lambda judge, written: None,
) -> PanelDecided:
    """Hear every judge convened to its end, then decide. `models` has one for each judge.

    On Ctrl-C the open evaluations are closed as interrupted, the panel decides, and `Interrupted` is raised.
    Where a judge's thread fails (the store is full, say), nothing more is stored of the others, the runner's
    lock is given back and its error is raised: the next writer takes over (rule 10).
    """
    news: queue.SimpleQueue[_News] = queue.SimpleQueue()
    stop = threading.Event()
    try:
        for judge in panel.judges:
            threading.Thread(
                target=_hear_judge,
                args=(panel, judge, models[judge], workspace, news, stop),
                name=f"judge {judge}",
                # A model call cannot be called off; a process told to end does not wait for one.
                daemon=True,
            ).start()
        _follow(len(panel.judges), news, on_turn)
        return panel.decide()
    except KeyboardInterrupt:
        stop.set()
        raise interrupted(panel) from None
    except BaseException:
        stop.set()
        panel.leave()
        raise


def interrupted(panel: Panel) -> Interrupted:
    """Close the panel as interrupted; what its person is told."""
    what = (
        "what was recorded stays, and the open evaluations are closed as interrupted"
        if panel.interrupt()
        else "the panel had decided already, and that stands"
    )
    task = panel.log.task
    return Interrupted(f"task {task}: interrupted; {what}", hint=f"causebook why {task}")


def _follow(judges: int, news: queue.SimpleQueue[_News], on_turn: OnTurn) -> None:
    """Until every judge has ended, or one has failed: then its error is raised at once."""
    while judges:
        try:
            # Bounded, as a signal just before an unbounded wait is not seen until the next turn.
            told = news.get(timeout=0.5)
        except queue.Empty:
            continue
        if told.written is not None:
            on_turn(told.judge, told.written)
        elif told.error is not None:
            raise told.error
        else:
            judges -= 1


def _hear_judge(
    panel: Panel,
    judge: str,
    model: Model,
    workspace: Workspace,
    news: queue.SimpleQueue[_News],
    stop: threading.Event,
) -> None:
    error: BaseException | None = None
    try:
        hear_seat(panel.open(judge), model, workspace, stop, lambda w: news.put(_News(judge, w)))
    except Abandoned:
        pass  # the caller's thread has given the panel up
    except BaseException as caught:  # noqa: BLE001 - handed to the caller's thread, which raises it
        error = caught
    news.put(_News(judge, None, error))


def hear_seat(
    seat: Seat,
    model: Model,
    workspace: Workspace,
    stop: threading.Event,
    stored: Callable[[list[Written]], None] = lambda written: None,
) -> None:
    """Hear one judge until it has decided, or `stop` is set between two calls, or two tries of one."""

    def sleep(seconds: float) -> None:
        if stop.wait(seconds):
            raise _Stopped

    while not stop.is_set():
        request = seat.next_request()
        if request is None:
            return
        try:
            outcome = ask(model, request, sleep=sleep)
        except _Stopped:
            return
        if stop.is_set():
            return
        failures = [(tried.fault, tried.declined_tool_choice) for tried in outcome.failures]
        if outcome.response is None:
            seat.fail(failures)
        else:
            for read in seat.respond(outcome.response, failures=failures):
                seat.answer(workspace.read(read.tool, read.arguments))
        stored(seat.written)
