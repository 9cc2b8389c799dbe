"""One attempt at a task: its coder's dispatches, its engine's halts, its panels."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Sequence
from dataclasses import dataclass

from ..domain.canonical import escaped_bytes
from ..domain.conversation import brief_text
from ..domain.errors import Busy, Misuse, VersionConflict
from ..domain.events import (
    CoderDispatched,
    PanelConvened,
    Phase,
    Policy,
    RawHaltType,
    Runner,
    TaskHalted,
    WorkspaceFacts,
)
from ..domain.evidence import text_bytes
from ..domain.limits import JUDGES_MAX, REASON_BYTES_MAX, ROOT_BYTES_MAX
from ..domain.quorum import CANONICAL, PANEL_HALTS
from ..domain.streams import shorten
from .panel import Panel
from .seat import Judge
from .takeover import taken
from .task_log import TaskLog, require_text


@dataclass
class Attempt:
    """One attempt at a task that is open."""

    log: TaskLog
    number: int
    spec: str | None = None

    def dispatch_coder(self, coder: str, *, brief: str | None = None) -> None:
        """Record that a coder was sent to work, with its orders as evidence."""
        require_text("coder", coder, 512)
        with self.log.transaction() as draft:
            commitment = None if brief is None else draft.satchel.commit(text_bytes(brief))
            draft.add(CoderDispatched(attempt=self.number, coder=coder, brief=commitment))

    def halt(self, raw_halt_type: RawHaltType, reason: str) -> None:
        """Record a halt of the engine's own, which closes the attempt.

        Raises `Misuse` for a type outside the closed vocabulary, or one that only a panel writes.
        """
        if raw_halt_type not in CANONICAL or raw_halt_type in PANEL_HALTS:
            ours = ", ".join(sorted(set(CANONICAL) - PANEL_HALTS))
            raise Misuse(
                f"halt type: expected one of an engine's, found {shorten(raw_halt_type)}",
                hint=f"there are {ours}",
            )
        require_text("halt, reason", reason, REASON_BYTES_MAX, may_be_empty=True)
        phases = self.log.state.phases
        with self.log.transaction() as draft:
            draft.add(
                TaskHalted(
                    attempt=self.number,
                    phase=phases[-1] if phases else None,
                    raw_halt_type=raw_halt_type,
                    halt_type=CANONICAL[raw_halt_type],
                    reason=reason,
                    decided=None,
                )
            )
            draft.follow()

    def convene(
        self,
        phase: Phase,
        policy: Policy,
        judges: Sequence[Judge],
        *,
        brief: str | None = None,
        base: str | None = None,
        root: str | None = None,
        workspace: WorkspaceFacts | None = None,
    ) -> Panel:
        """Convene a panel and hold its runner's lock until it has decided.

        `brief` is what every judge is told after its criteria; without one, the task and its spec. `root`
        is the absolute path that reads are relative to. Raises `Busy`, naming who, where another process
        judges this attempt.
        """
        if not 1 <= len(judges) <= JUDGES_MAX:
            raise Misuse(f"judges: expected 1 to {JUDGES_MAX}, found {len(judges)}")
        for judge in judges:
            judge.check()
        if root is not None and (escaped_bytes(root) or ROOT_BYTES_MAX + 1) > ROOT_BYTES_MAX:
            raise Misuse(f"root: expected at most {ROOT_BYTES_MAX} bytes, found {shorten(root)}")
        log = self.log
        spec = log.agreed_spec(self.spec)
        told = brief if brief is not None else brief_text(log.task, spec, None, None)
        runner = Runner(
            id=secrets.token_hex(16), host=socket.gethostname() or "unknown", process=os.getpid()
        )
        lock = log.writer.store.try_lock(runner.id)
        if lock is None:
            raise Busy("a fresh runner's lock is taken", hint="try again")
        try:
            with log.transaction() as draft:
                convened = PanelConvened(
                    attempt=self.number,
                    phase=phase,
                    policy=policy,
                    judges=tuple(judge.mandate() for judge in judges),
                    brief=draft.satchel.commit(text_bytes(told)),
                    base=base,
                    workspace=workspace,
                    root=root,
                    runner=runner,
                )
                draft.add(convened)
        except VersionConflict:
            lock.release()
            raise taken(log) from None
        except BaseException:
            lock.release()
            raise
        return Panel(log, convened, {judge.id: judge for judge in judges}, told, lock)
