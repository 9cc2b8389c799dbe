"""A panel that sits: its judges are opened, heard side by side, and decide."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from ..domain.conversation import system_message, system_text, user_message
from ..domain.errors import Misuse
from ..domain.evaluation import Evaluation, opening
from ..domain.events import PanelConvened, PanelDecided
from ..domain.evidence import text_bytes
from ..domain.streams import evaluation_stream, shorten
from .seat import Abandoned, Judge, Seat
from .store.port import RunnerLock
from .takeover import ballot, close, decide
from .task_log import TaskLog
from .writer import Batch, Satchel, Written


@dataclass
class Panel:
    """A panel that sits. Its judges may be heard side by side, each seat in one thread.

    A context manager: a panel that has not decided by the end of the block is left to the next writer that
    takes over (rule 10), and the runner's lock is given back however the block ends.
    """

    log: TaskLog
    convened: PanelConvened
    judges: dict[str, Judge]
    brief: str
    lock: RunnerLock
    seats: dict[str, Seat] = field(default_factory=dict)
    _is_given_up: bool = False
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def open(self, judge: str) -> Seat:
        """Open the evaluation of one judge. Raises `Misuse` for one not convened, or opened already."""
        if judge not in self.judges:
            raise Misuse(f"judge {shorten(judge)} was not convened", hint=", ".join(self.judges))
        if judge in self.seats:
            raise Misuse(f"judge {judge} was opened already", hint="a judge is heard once a panel")
        log, convened, told = self.log, self.convened, self.judges[judge]
        satchel = Satchel(log.task)
        system = system_text(told.id, convened.phase, told.criteria)
        brief = convened.brief
        prompt = (satchel.commit(text_bytes(system)), *(() if brief is None else (brief,)))
        opened = opening(log.task, convened, told.mandate(), tuple(told.criteria), prompt)
        stream = evaluation_stream(log.task, convened.attempt, convened.phase, told.id)
        batch = log.writer.batch()
        batch.evidence.extend(satchel.rows)
        record = batch.add(stream, opened, anchor=log.panel_digest)
        self.commit(batch)
        seat = Seat(
            task=log.task,
            stream=stream,
            writer=log.writer,
            commit=self.commit,
            evaluation=Evaluation(opened),
            messages=[system_message(system), user_message(self.brief)],
            tip=record.tip,
        )
        self.seats[judge] = seat
        return seat

    def decide(self) -> PanelDecided:
        """Decide once every judge has; record the decision and what follows from it.

        Raises `Misuse` naming a judge that has not decided. Where storing fails the panel still sits, and
        can be asked again.
        """
        ballots = []
        for judge in self.judges:
            seat = self.seats.get(judge)
            if seat is None or seat.closing is None:
                raise Misuse(f"judge {judge} has not decided", hint="hear it to the end first")
            ballots.append(ballot(judge, seat.closing))
        with self.log.transaction() as draft:
            event = decide(draft, self.convened, ballots)
        self.lock.release()
        return event

    def interrupt(self) -> bool:
        """Close what is open, as interrupted, and decide: the runner is told to stop (rule 10).

        False where the panel has decided already: that stands. Where closing fails, the next writer does it.
        """
        self._give_up()
        try:
            return close(self.log, self.convened.runner)
        finally:
            self.lock.release()

    def leave(self) -> None:
        """Leave the panel as it is stored, to the next writer that takes over (rule 10)."""
        self._give_up()
        self.lock.release()

    def commit(self, batch: Batch) -> list[Written]:
        """Store what one of its judges did, unless the panel was given up meanwhile. Raises `Abandoned`.

        One thread at a time: a store has one writer anyway, and waits for it less well than a lock does.
        """
        with self._guard:
            if self._is_given_up:
                raise Abandoned("the panel was given up", hint="its open evaluations are closed")
            return batch.commit()

    def _give_up(self) -> None:
        with self._guard:
            self._is_given_up = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.leave()
