"""What a witness has cosigned, on disk, and what follows for the next checkpoint it is shown.

    DIR/<sha256 of the origin, hex>.checkpoint    the newest checkpoint cosigned: a note with the log's
                                                  signature and ours
    DIR/<sha256 of the origin, hex>/              what the log was caught at, 256 files of a kind at most
        <sha256 of the checkpoint's text>.split-view    a proof that anybody can check (domain/proof.py)
        <sha256 of the checkpoint's text>.inconsistent  a checkpoint signed by the log whose proof did not
                                                  hold: a reason to ask the log, and no proof, since
                                                  anybody can send a good checkpoint with a bad path

A decision and what it writes are one step under a lock, of this process's threads and of other processes on
the same folder, and what is written is on the disk before `submit` or `shown` answers. So a cosignature that
was handed out is in DIR, whatever happens after, and the size of an origin never goes down. A file that is
not what this module writes is an error and never "nothing cosigned yet".

The rules are those of C2SP tlog-witness (commit 055270b59289), in its order. Beyond them: the checkpoint has
no extension lines and a size from 1 (domain/checkpoint.py), and a note on which a signature by a known log
key does not hold counts as not signed.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from ...domain.checkpoint import SignedCheckpoint, cosign
from ...domain.errors import Busy, CannotCreate, Denied, IOFailure
from ...domain.note import ED25519, NOTE_BYTES_MAX, Note, NoteError, NoteKey, Verify, is_signed_by
from ...domain.proof import ConsistencyProof, ProofError
from ...projections.tree import verify_consistency
from .. import split_view
from ..durable import make_folder_durably, replace_durably, sync_folder
from ..store.locks import wait_file_lock

EVIDENCE_FILES_MAX: Final = 256
LOCK_SECONDS: Final = 10.0
_LOG_SIGNATURES_MAX: Final = 16


@dataclass(frozen=True)
class Cosigned:
    """200. The checkpoint was consistent: what the witness signs of it, a signature line."""

    line: str
    size: int


@dataclass(frozen=True)
class Refused:
    """The status of the text, and why, on one line."""

    status: Literal[400, 403, 404, 422]
    why: str


@dataclass(frozen=True)
class Conflict:
    """409. `size`: of the newest checkpoint cosigned, 0 for none. `why`: one line."""

    size: int
    why: str


Answer = Cosigned | Refused | Conflict


@dataclass(frozen=True)
class Witness:
    """A witness: its key, the logs it knows, the folder of its state.

    `logs`: note keys of type 0x01, whose name is their log's origin; several may be of one origin. `sign`: 64
    bytes over a message. `now`: POSIX seconds. `say` is told in one line of evidence that was kept.
    """

    key: NoteKey
    sign: Callable[[bytes], bytes] = field(repr=False)
    logs: tuple[NoteKey, ...]
    folder: Path
    verify: Verify
    now: Callable[[], float] = time.time
    say: Callable[[str], None] = lambda line: None
    _turn: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def __post_init__(self) -> None:
        if any(log.kind != ED25519 for log in self.logs):
            raise ValueError("a log's key is of type 0x01")

    def prepare(self) -> None:
        """Make the folder where it is not there, and look at what lies in it.

        Raises `CannotCreate`, `Denied` for a folder that others can write to, `IOFailure` as `newest` does.
        """
        try:
            make_folder_durably(self.folder)
            status = self.folder.stat()
        except OSError as error:
            raise CannotCreate(
                f"{self.folder}: cannot keep state here: {error.strerror}",
                hint="name another folder with --state",
            ) from None
        if status.st_mode & 0o022:
            raise Denied(
                f"{self.folder}: expected a folder that only its owner can write to,"
                f" found mode {status.st_mode & 0o777:04o}",
                hint=f"chmod 700 {self.folder}",
            )
        for name, origin in self.origins.items():
            with self._alone(origin):
                self.newest(origin)
                # What a process that was killed had not yet given its name.
                for left in self.folder.glob(f".{name}.checkpoint.*"):
                    left.unlink(missing_ok=True)

    @property
    def origins(self) -> Mapping[str, str]:
        """The origins that are known, by the SHA-256 of each, in hex."""
        return {name_of(log.name): log.name for log in self.logs}

    def newest(self, origin: str) -> SignedCheckpoint | None:
        """The newest checkpoint cosigned of an origin, with the log's signature and ours; None for none.

        Raises `IOFailure` where the file cannot be read, or is not what this module writes.
        """
        path = self.folder / f"{name_of(origin)}.checkpoint"
        try:
            with path.open("rb") as file:
                raw = file.read(NOTE_BYTES_MAX + 1)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise IOFailure(f"{path}: {error.strerror}") from None
        try:
            found = SignedCheckpoint.parse(raw)
        except NoteError as error:
            raise _unreadable(path, error.message) from None
        if found.checkpoint.origin != origin:
            raise _unreadable(path, "a checkpoint of another origin")
        return found

    def shown(self, origin: str) -> SignedCheckpoint | None:
        """The same, to be handed out: on the disk, also where the write that put it there was cut short.

        Raises `IOFailure` likewise and where that cannot be made sure of, `Busy` as `submit` does.
        """
        with self._alone(origin):
            found = self.newest(origin)
            if found is not None:
                try:
                    sync_folder(self.folder)
                except OSError as error:
                    raise IOFailure(f"{self.folder}: {error.strerror}") from None
            return found

    def submit(self, body: bytes) -> Answer:
        """Answer the body of an `add-checkpoint` request.

        Where the answer is `Cosigned`, the checkpoint is on the disk. Raises `IOFailure` where it cannot be
        put there: the folder holds the one before or this one, and neither is handed out of it before it is
        on the disk. Raises `Busy` where another process holds the lock for over 10 seconds.
        """
        try:
            proof = ConsistencyProof.parse(body)
        except ProofError as error:
            return Refused(400, error.message)
        signed, origin = proof.checkpoint, proof.checkpoint.checkpoint.origin
        keys = [log for log in self.logs if log.name == origin]
        if not keys:
            return Refused(404, "this witness does not know the log of this origin")
        try:
            signers = [key for key in keys if is_signed_by(signed.note, key, self.verify)]
        except NoteError as error:
            return Refused(403, error.message)
        if not signers:
            return Refused(403, "expected a signature by a key of this log, found none")
        if proof.old_size > signed.checkpoint.size:
            return Refused(400, f"expected an old size up to {signed.checkpoint.size}")
        # One signature a key, and what others put on the note is theirs to keep: so ours has room.
        kept = tuple(signed.note.by(key)[0] for key in signers[:_LOG_SIGNATURES_MAX])
        signed = SignedCheckpoint(signed.checkpoint, Note(signed.note.text, kept))
        with self._alone(origin):
            return self._decide(ConsistencyProof(proof.old_size, proof.path, signed))

    def _decide(self, proof: ConsistencyProof) -> Answer:
        """The rules that rest on what was cosigned before, and the step they lead to. Under the lock."""
        signed, new = proof.checkpoint, proof.checkpoint.checkpoint
        seen = self.newest(new.origin)
        size, root = (0, b"") if seen is None else (seen.checkpoint.size, seen.checkpoint.root)
        forked = new.size == size and new.root != root
        if seen is not None and forked:
            self._keep(seen, ConsistencyProof(size, (), signed))
        if proof.old_size != size:
            return Conflict(size, f"expected old size {size}, found {proof.old_size}")
        if forked:
            return Conflict(size, "another root of the size that was cosigned before")
        try:
            if size:
                verify_consistency(size, new.size, proof.path, root, new.root)
            elif proof.path:
                raise ProofError("consistency: expected no hashes for the old size 0")
        except ProofError as error:
            if seen is not None and new.size > size:
                self._keep(seen, proof)
            return Refused(422, error.message)
        line = cosign(signed.note.text, self.key, int(self.now()), self.sign)
        note = Note(signed.note.text, (*signed.note.signatures, line))
        self._write(self.folder / f"{name_of(new.origin)}.checkpoint", note.raw)
        return Cosigned(line.line, new.size)

    def _keep(self, seen: SignedCheckpoint, proof: ConsistencyProof) -> None:
        """Keep what a log signed and cannot answer for, once for each checkpoint."""
        view = None
        # A path may show nothing; that the log signed the checkpoint still tells something.
        with suppress(ProofError):
            if any(s.is_by(key) for s in seen.note.signatures for key in self._signers(proof)):
                view = split_view.from_path(seen, proof.checkpoint, proof.path)
        folder = self.folder / name_of(seen.checkpoint.origin)
        name = hashlib.sha256(proof.checkpoint.note.text.encode()).hexdigest()
        path = folder / f"{name}.{'inconsistent' if view is None else 'split-view'}"
        try:
            make_folder_durably(folder)
            # A proof is worth its place even where reasons to ask fill theirs.
            there = sum(each.suffix == path.suffix for each in folder.iterdir())
        except OSError as error:
            raise IOFailure(f"{folder}: {error.strerror}") from None
        if path.exists() or there >= EVIDENCE_FILES_MAX:
            return
        self._write(path, proof.raw if view is None else view.raw)
        what = "a checkpoint whose proof does not hold" if view is None else "a split view"
        self.say(f"{seen.checkpoint.origin}: {what}, kept as {path}")

    def _signers(self, proof: ConsistencyProof) -> list[NoteKey]:
        return [log for log in self.logs if proof.checkpoint.note.by(log)]

    def _write(self, path: Path, content: bytes) -> None:
        try:
            replace_durably(path, content)
        except OSError as error:
            raise IOFailure(
                f"{path}: cannot be written: {error.strerror}", hint="no cosignature was handed out"
            ) from None

    @contextmanager
    def _alone(self, origin: str) -> Iterator[None]:
        if not self._turn.acquire(timeout=LOCK_SECONDS):
            raise Busy(f"{self.folder}: held for over {LOCK_SECONDS:g} s")
        try:
            lock = wait_file_lock(self.folder / "state", name_of(origin), LOCK_SECONDS)
            try:
                yield
            finally:
                lock.release()
        finally:
            self._turn.release()


def name_of(origin: str) -> str:
    """What the files of an origin are called: its SHA-256 in hex."""
    return hashlib.sha256(origin.encode()).hexdigest()


def known_logs(vkeys: Iterable[str]) -> tuple[NoteKey, ...]:
    """The keys that vkeys are. Raises `NoteError` for one that is none, stands twice or is no log's."""
    keys: list[NoteKey] = []
    for vkey in vkeys:
        key = NoteKey.parse(vkey)
        if key.kind != ED25519:
            raise NoteError(f"vkey of {key.name!a}: expected type 0x01, a log's, found 0x04")
        if any(key.public == other.public for other in keys):
            raise NoteError(f"vkey of {key.name!a}: its public key was given before")
        keys.append(key)
    return tuple(keys)


def _unreadable(path: Path, found: str) -> IOFailure:
    return IOFailure(
        f"{path}: expected the newest checkpoint cosigned, found {found}",
        hint="put the file back; without it the witness would sign another history",
    )
