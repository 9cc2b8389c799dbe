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

import base64
import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

from ..domain.errors import CannotCreate, Misuse, VersionConflict
from ..domain.events import (
    AttemptStarted,
    KeyEnrolled,
    LedgerFounded,
    ResolutionRecorded,
    TaskOpened,
)
from ..domain.evidence import text_bytes
from ..domain.keyring import enrolment_bytes
from ..domain.record import is_origin
from ..domain.streams import LEDGER, require_id, shorten
from .attempt import Attempt
from .keys import ROLES, KeyFolder, Passphrase, Signer, no_passphrase
from .store.port import Store
from .store.url import JUDGE_LOCK_TIMEOUT_SECONDS, display, found, open_store
from .takeover import take_over
from .task_log import TaskLog, resolve
from .writer import Clock, Writer, utc_now


@dataclass
class Ledger:
    """One ledger, open for writing. A context manager; `close` gives its connections back."""

    url: str
    store: Store
    writer: Writer

    @classmethod
    def found(
        cls,
        url: str,
        *,
        keys: str | os.PathLike[str],
        origin: str | None = None,
        passphrase: bytes | None = None,
        clock: Clock = utc_now,
    ) -> Self:
        """Found a new ledger at `url`, making a key for each role in the folder `keys` unless they are there.

        `origin` is its name, best under a domain one owns; without it one is made up. `passphrase` encrypts
        new keys. Raises `CannotCreate` where a ledger exists, and what the store and the keys raise.
        """
        name = origin if origin is not None else f"causebook.local/{secrets.token_hex(16)}"
        if not is_origin(name):
            raise Misuse(
                f"origin: expected a name without blanks, '+' or controls, found {shorten(name)}",
                hint="best under a domain you own: audit.example.com/team",
            )
        folder = KeyFolder(
            Path(keys), no_passphrase if passphrase is None else lambda _: passphrase
        )
        folder.check()
        store = found(url)
        try:
            folder.make(passphrase)
            writer = Writer(store, _signers(folder), clock, origin=name)
            _append_founding(writer, folder)
            writer.load()
        except VersionConflict:
            store.close()
            raise CannotCreate(
                f"{display(url)}: a ledger was founded here meanwhile",
                hint="use it, or name another",
            ) from None
        except BaseException:
            store.close()
            raise
        return cls(url, store, writer)

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
            writer = Writer(store, _signers(KeyFolder(Path(keys), passphrase)), clock)
            writer.load()
        except BaseException:
            store.close()
            raise
        return cls(url, store, writer)

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


def _signers(folder: KeyFolder) -> _SignerOf:
    return _SignerOf(folder)


@dataclass(frozen=True)
class _SignerOf:
    folder: KeyFolder

    def __call__(self, role: str) -> Signer:
        for known in ROLES:
            if known == role:
                return self.folder.signer(known)
        raise Misuse(f"role: expected one of {', '.join(ROLES)}, found {shorten(role)}")


def _append_founding(writer: Writer, folder: KeyFolder) -> None:
    nonce = secrets.token_hex(32)
    batch = writer.batch()
    root = writer.signer("root")
    batch.add(
        LEDGER,
        LedgerFounded(format=1, nonce=nonce, root_key=root.public_key, custody="together"),
    )
    for role in ROLES:
        if role == "root":
            continue
        signer = writer.signer(role)
        message = enrolment_bytes(writer.origin, nonce, role, role, signer.public_key)
        batch.add(
            LEDGER,
            KeyEnrolled(
                role=role,
                name=role,
                public_key=signer.public_key,
                possession=_base64(signer.sign(message)),
                rotates=None,
                handover=None,
            ),
        )
    batch.commit()


def _base64(signature: bytes) -> str:
    return base64.b64encode(signature).decode()
