"""A task's stream as a writer holds it: what is stored, and what one more transaction would make of it.

What may be appended is asked of `domain/task.py` first. A transaction works on a copy: the state that the
handle shows is always one that was stored.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal, Self, cast

from ..domain.canonical import escaped_bytes
from ..domain.errors import BadData, Misuse, VersionConflict
from ..domain.events import (
    AttemptClosed,
    Event,
    Head,
    PanelConvened,
    ResolutionRecorded,
    TaskCompleted,
    TaskOpened,
)
from ..domain.limits import REASON_BYTES_MAX
from ..domain.quorum import panel_halt
from ..domain.streams import task_stream
from ..domain.task import Task
from .evidence import stored_text
from .ledger_stream import NOTHING, Tip
from .writer import Batch, Satchel, Writer, Written


@dataclass
class TaskLog:
    """A task's stream: the folded state, its tip, and the digest of the panel that sits.

    `spec`: the commitment to what the task asks for, as it was opened with.
    """

    writer: Writer
    task: str
    state: Task
    tip: Tip = NOTHING
    panel_digest: str = ""
    spec: str | None = None
    _is_stale: bool = False

    @classmethod
    def load(cls, writer: Writer, task: str) -> Self:
        """Read the stream and fold it. Raises `BadData` where it does not hold or is not lawful."""
        log = cls(writer, task, Task(task))
        log.reload()
        return log

    @property
    def stream(self) -> str:
        """The stream's name."""
        return task_stream(self.task)

    def reload(self) -> None:
        """Read the stream again: another writer was first, or it is not known what was stored."""
        draft = self._draft(Task(self.task), NOTHING)
        for record, event in self.writer.read(self.stream):
            objection = draft.state.objection(event)
            if objection is not None:
                raise BadData(
                    f"{self.stream} v{record.version}: {objection}",
                    hint="causebook verify says what is wrong with the ledger",
                )
            draft.fold(event, (record.version, record.digest))
        self._take(draft)

    def spec_text(self) -> str | None:
        """What the task asks for, from the evidence; None where it was opened without, or that is erased."""
        return None if self.spec is None else stored_text(self.writer.store, self.spec)

    def agreed_spec(self, given: str | None) -> str | None:
        """What attempts are judged against: the spec it was opened with, where it is open; else `given`.

        Raises `Misuse` where another is given.
        """
        if self.state.stage == "unopened":
            return given
        kept = self.spec_text()
        if given is None or given == kept:
            return kept
        if self.spec is not None and kept is None:
            return given  # erased: nothing is left to hold it against
        opened = "another" if self.spec is not None else "none"
        raise Misuse(
            f"task {self.task}, spec: expected the one it was opened with, which is {opened}",
            hint="leave the spec out, and the recorded one is used; other work is another task",
        )

    @contextmanager
    def transaction(self) -> Iterator[Draft]:
        """Add to the draft; when the block ends well, all of it is stored and becomes the state.

        Raises what the store raises; after a `VersionConflict` the state is what the other writer stored.
        """
        if self._is_stale:
            self.reload()
        draft = self._draft(copy.deepcopy(self.state), self.tip)
        yield draft
        self._is_stale = True  # until it is known what was stored
        try:
            draft.commit()
        except VersionConflict:
            self.reload()
            raise
        self._take(draft)

    def _draft(self, state: Task, tip: Tip) -> Draft:
        batch = self.writer.batch()
        batch.after(self.stream, tip)
        return Draft(
            self.stream, batch, state, tip, self.panel_digest, self.spec, Satchel(self.task)
        )

    def _take(self, draft: Draft) -> None:
        self.state, self.tip = draft.state, draft.tip
        self.panel_digest, self.spec = draft.panel_digest, draft.spec
        self._is_stale = False


@dataclass
class Draft:
    """One transaction on a task: its records and evidence, and the state they would come to."""

    stream: str
    batch: Batch
    state: Task
    tip: Tip
    panel_digest: str
    spec: str | None
    satchel: Satchel = field(repr=False)

    def add(self, event: Event) -> Written:
        """Put `event` next on the stream. Raises `Misuse` where the order of a task's events forbids it."""
        objection = self.state.objection(event)
        if objection is not None:
            task = self.state.task
            raise Misuse(f"task {task}: {objection}", hint=f"causebook log {task}")
        written = self.batch.add(self.stream, event)
        self.fold(event, written.tip)
        return written

    def admit(self, raw: bytes) -> Written:
        """Put a record next on the stream that was signed elsewhere. Raises as `add` and `Batch.admit`."""
        written = self.batch.admit(raw)
        objection = self.state.objection(written.event)
        if objection is not None:
            task = self.state.task
            raise Misuse(f"task {task}: {objection}", hint=f"causebook log {task}")
        self.fold(written.event, written.tip)
        return written

    def follow(self) -> None:
        """Add what is due after a decision, a halt or a resolution, up to where the attempt rests."""
        state = self.state
        while (due := state.due) is not None:
            if due == "TaskHalted" and state.decided is not None:
                self.add(panel_halt(state.decided, state.decided_digest))
            elif due == "AttemptClosed":
                self.add(self._closing())
            else:
                self.add(TaskCompleted(attempt=state.attempt))

    def fold(self, event: Event, tip: Tip) -> None:
        """Fold in an event whose record ends the stream at `tip`."""
        self.state.apply(event, tip[1])
        self.tip = tip
        if isinstance(event, PanelConvened):
            self.panel_digest = tip[1]
        elif isinstance(event, TaskOpened):
            self.spec = event.spec

    def commit(self) -> None:
        """Store it."""
        self.batch.evidence.extend(self.satchel.rows)
        self.batch.commit()

    def _closing(self) -> AttemptClosed:
        state = self.state
        heads = [Head(stream=b.stream, version=b.version, digest=b.digest) for b in state.ballots]
        version, digest = self.tip
        heads.append(Head(stream=self.stream, version=version, digest=digest))
        return AttemptClosed(attempt=state.attempt, outcome=state.outcome(), heads=tuple(heads))


def resolve(
    log: TaskLog,
    decision: Literal["proceed", "halt", "reject"],
    *,
    name: str,
    meaning: str,
    comment: str = "",
) -> ResolutionRecorded:
    """Record a person's resolution of the escalation that waits, signed by the authority key.

    Raises `Misuse` where none waits: blockers and errors are resolved by nobody.
    """
    event = resolution(log, decision, name=name, meaning=meaning, comment=comment)
    with log.transaction() as draft:
        draft.add(event)
        draft.follow()
    return event


def resolution(
    log: TaskLog,
    decision: Literal["proceed", "halt", "reject"],
    *,
    name: str,
    meaning: str,
    comment: str = "",
) -> ResolutionRecorded:
    """What `resolve` records, of the decision that waits now; nothing is recorded. Raises `Misuse`."""
    state = log.state
    if state.stage != "waiting" or state.decided is None:
        raise Misuse(
            f"task {log.task}: only an escalation can be resolved, and none is waiting",
            hint=f"causebook why {log.task} shows where it stands; a blocker or an error needs a new attempt",
        )
    for what, text in (("name", name), ("meaning", meaning)):
        require_text(f"resolution, {what}", text, 512)
    require_text("resolution, comment", comment, REASON_BYTES_MAX, may_be_empty=True)
    return ResolutionRecorded(
        attempt=state.attempt,
        phase=state.decided.phase,
        decision=decision,
        name=name,
        meaning=meaning,
        comment=comment,
        decided=cast(str, state.decided_digest),
    )


def require_text(what: str, text: str, bytes_max: int, *, may_be_empty: bool = False) -> None:
    """Raise `Misuse` unless `text` fits the record: Unicode, not blank, bounded as it stands escaped."""
    length = escaped_bytes(text)
    if length is None or length > bytes_max or not (may_be_empty or text.strip()):
        found = "text that is not Unicode" if length is None else f"{length} bytes"
        raise Misuse(
            f"{what}: expected {'up to' if may_be_empty else '1 to'} {bytes_max} bytes of text, "
            f"not blank, found {found}",
            hint="the record keeps it for ever: say it in a few words",
        )
