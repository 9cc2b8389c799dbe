"""The library: found or open a ledger, and put a judge loop of any kind on it.

    with Ledger.open("sqlite:///ledger.db", keys="keys") as ledger:
        attempt = ledger.task("T-1", spec="Fix the login").start_attempt()
        attempt.dispatch_coder("my-coder")
        with attempt.convene("post_execute", "any", [Judge("security", "my-model", ["…"])]) as panel:
            seat = panel.open("security")
            while (request := seat.next_request()) is not None:
                for read in seat.respond(my_model(request)):
                    seat.answer(my_tool(read))
            decided = panel.decide()

Load, decide, save: a handle folds what is stored, asks the domain what follows, and appends that. The rules
are the domain's; this module knows none. Neither a model nor a workspace is needed here.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

from ..domain.errors import Misuse
from ..domain.events import (
    AttemptStarted,
    ResolutionRecorded,
    TaskOpened,
)
from ..domain.evidence import text_bytes
from ..domain.streams import require_id
from .attempt import Attempt
from .founding import (
    ask_founding,
    require_origin,
    require_predecessor,
    sign_with,
    store_founding,
)
from .keys import ROLES, KeyFolder, Passphrase, no_passphrase
from .sealing.cosigning import Witness
from .sealing.memory import SealMemory
from .sealing.seal import Sealed, Sealer
from .store.port import Store
from .store.url import JUDGE_LOCK_TIMEOUT_SECONDS, found, open_store
from .takeover import take_over
from .task_log import TaskLog, resolve
from .writer import Clock, Writer, utc_now


@dataclass
class Ledger:
    """One ledger, open for writing. A context manager; `close` gives its connections back."""

    url: str
    store: Store
    writer: Writer
    keys: Path

    @classmethod
    def found(
        cls,
        url: str,
        *,
        keys: str | os.PathLike[str],
        origin: str | None = None,
        passphrase: bytes | None = None,
        continues: bytes | None = None,
        clock: Clock = utc_now,
    ) -> Self:
        """Found a new ledger at `url`, making a key for each role in the folder `keys` unless they are there.

        `origin` is its name, best under a domain one owns; without it one is made up. `passphrase` encrypts
        new keys. `continues`: the note of the last checkpoint of a ledger that this one succeeds. Raises
        `CannotCreate` where a ledger exists, and what the store and the keys raise.
        """
        name = require_origin(origin)
        folder = KeyFolder(
            Path(keys), no_passphrase if passphrase is None else lambda _: passphrase
        )
        folder.check()
        note = None
        if continues is not None:
            reused = folder.signer("log").public_key if folder.file_of("log").exists() else None
            note = require_predecessor(name, continues, reused)
        store = found(url)
        try:
            folder.make(passphrase)
            signers = {role: folder.signer(role) for role in ROLES}
            public_keys = {role: signer.public_key for role, signer in signers.items()}
            request = ask_founding(name, public_keys, clock, apart=False, continues=note)
            store_founding(store, url, sign_with(request, list(signers.values())))
            writer = Writer(store, folder.choose, clock)
            writer.load()
        except BaseException:
            store.close()
            raise
        return cls(url, store, writer, Path(keys))

    @classmethod
    def open(
        cls,
        url: str,
        *,
        keys: str | os.PathLike[str],
        passphrase: Passphrase = no_passphrase,
        lock_timeout_seconds: float = JUDGE_LOCK_TIMEOUT_SECONDS,
        clock: Clock = utc_now,
    ) -> Self:
        """Open the ledger at `url` to write to it with the keys in the folder `keys`.

        A key is read when it first signs. `lock_timeout_seconds`: how long a write waits for others.
        """
        store = open_store(url, lock_timeout_seconds=lock_timeout_seconds)
        try:
            writer = Writer(store, KeyFolder(Path(keys), passphrase).choose, clock)
            writer.load()
        except BaseException:
            store.close()
            raise
        return cls(url, store, writer, Path(keys))

    @property
    def origin(self) -> str:
        """The ledger's name."""
        return self.writer.origin

    def task(self, task: str, *, spec: str | None = None) -> TaskHandle:
        """The task named `task`, known or new. `spec`: what it asks for, kept when it is new.

        A known task keeps the spec that it was opened with: every attempt is judged against that one. Raises
        `Misuse` for another, or for a name that is no id.
        """
        log = TaskLog.load(self.writer, require_id(task, "task"))
        return TaskHandle(self, log, log.agreed_spec(spec))

    @property
    def sealer(self) -> Sealer:
        """What seals this ledger, with the log key in the folder of the keys."""
        return Sealer(self.writer, SealMemory.of(self.keys, self.origin))

    def seal(
        self,
        *,
        witnesses: Sequence[Witness] = (),
        adopt: bool = False,
        wait_seconds: float = JUDGE_LOCK_TIMEOUT_SECONDS,
    ) -> Sealed:
        """Sign a checkpoint over all records there are: see `Sealer.seal`.

        What is sealed can no longer be cut off or changed without the log key's holder being caught at it.
        """
        return self.sealer.seal(witnesses=witnesses, adopt=adopt, wait_seconds=wait_seconds)

    def close(self) -> None:
        """Give the connections back."""
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass
class TaskHandle:
    """One task of a ledger."""

    ledger: Ledger
    log: TaskLog
    spec: str | None = None

    def start_attempt(self, *, rejudges: int | None = None) -> Attempt:
        """Start the next attempt; the task is opened with its first.

        Raises `Misuse` where the order of a task's events does not allow it, `VersionConflict` where another
        process was first.
        """
        log = self.log
        with log.transaction() as draft:
            if draft.state.stage == "unopened":
                spec = None if self.spec is None else draft.satchel.commit(text_bytes(self.spec))
                draft.add(TaskOpened(task=log.task, spec=spec))
            else:  # by another, it may be, since this handle was made
                self.spec = log.agreed_spec(self.spec)
            number = draft.state.attempt + 1
            draft.add(AttemptStarted(attempt=number, rejudges=rejudges))
        return Attempt(log, number, self.spec)

    def open_attempt(self) -> Attempt:
        """The attempt that is open. Raises `Misuse` where none is."""
        state = self.log.state
        if state.stage in ("unopened", "between", "completed"):
            raise Misuse(
                f"task {self.log.task}: no attempt is open", hint="start_attempt() starts one"
            )
        if self.spec is None:
            self.spec = self.log.spec_text()
        return Attempt(self.log, state.attempt, self.spec)

    def take_over(self) -> bool:
        """Close the panel of a runner that is gone (rule 10); True where that was done.

        Raises `Busy`, naming the runner, where it lives.
        """
        return take_over(self.log)

    def resolve(
        self,
        decision: Literal["proceed", "halt", "reject"],
        *,
        name: str,
        meaning: str,
        comment: str = "",
    ) -> ResolutionRecorded:
        """Record a person's resolution of the escalation that waits, signed by the authority key.

        `name` is the person's, printed; `meaning` what the signature means. Raises `Misuse` where no
        escalation waits: blockers and errors are resolved by nobody.
        """
        return resolve(self.log, decision, name=name, meaning=meaning, comment=comment)
