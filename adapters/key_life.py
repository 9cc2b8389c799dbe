"""Keys that come and go: enrolling, rotating and retiring them, wherever their private halves live.

Each change is a signing request (domain/signing_request.py): what is to be signed is written out first, the
keys at hand sign what they can, and what is signed whole is stored. Where nothing is missing that is one
step; where root, an authority or the new key lives elsewhere, the request goes there and comes back.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Final, Literal, cast, get_args

from ..domain.checkpoint import SignedCheckpoint
from ..domain.encoding import is_key_name
from ..domain.errors import BadData, Denied, Misuse, NoInput, VersionConflict
from ..domain.events import KeyRetired, ResolutionRecorded, Role
from ..domain.keyring import EnrolledKey, Keyring
from ..domain.limits import REASON_BYTES_MAX
from ..domain.signing_request import AskedRecord, SigningRequest, Want, asking, named
from ..domain.streams import LEDGER, parse_stream, shorten
from .kept_checkpoints import log_part
from .keys import KeyFolder
from .ledger_stream import Tip
from .store.port import Store
from .task_log import TaskLog, require_text, resolution
from .writer import Writer, Written

ROLES_ENROLLED: Final = tuple(role for role in get_args(Role) if role != "root")
"""The roles that keys are enrolled for. Root founded the ledger, and there is one."""

KEYID_CHARACTERS_MIN: Final = 8
NAME_BYTES_MAX: Final = 512
_ELSEWHERE: Final = (
    "--keys DIR names its folder; where it is kept elsewhere, --request FILE asks it to sign there"
)


def require_role(text: str) -> Role:
    """The role that `text` names, of those that keys are enrolled for. Raises `Misuse`."""
    if text == "root":
        raise Misuse(
            "role: a ledger has one root, which founded it",
            hint="where it is lost or shared, found a successor: causebook init --continues CHECKPOINT",
        )
    if text not in ROLES_ENROLLED:
        raise Misuse(
            f"role: expected one of {', '.join(ROLES_ENROLLED)}, found {shorten(text)}",
            hint="causebook keys list shows the keys that there are",
        )
    return cast(Role, text)


def require_name(role: Role, name: str) -> None:
    """Raise `Misuse` unless a key of that role can have this name."""
    require_text("--name", name, NAME_BYTES_MAX)
    if role == "witness" and not is_key_name(name):
        raise Misuse(
            "--name: expected the name of a note key, without blanks, '+' or controls, found "
            f"{shorten(name)}",
            hint="the name that the witness signs with: witness.example.com",
        )


def key_named(keyring: Keyring, text: str) -> EnrolledKey:
    """The key that a person means: a role's newest, or one by its id or the first 8 digits of it.

    A role without a key that is not retired means its newest retired one. Raises `NoInput`.
    """
    if text in get_args(Role):
        of_role = [key for key in keyring.keys.values() if key.role == text]
        newest = sorted(of_role, key=lambda key: (key.retired is None, key.enrolled))
        if newest:
            return newest[-1]
    elif len(text) >= KEYID_CHARACTERS_MIN:
        found = [key for key in keyring.keys.values() if key.keyid.startswith(text)]
        if len(found) == 1:
            return found[0]
    raise NoInput(
        f"key: expected a role, or the id of an enrolled key or its first 8 digits, found {shorten(text)}",
        hint="causebook keys list shows the keys, --json with their whole ids",
    )


# ── what is asked for ────────────────────────────────────────────────────────────────────────────────


def ask_enrolment(
    writer: Writer, role: Role, name: str, public_key: str, *, rotates: EnrolledKey | None = None
) -> SigningRequest:
    """A request to enrol a key (base64 of its SubjectPublicKeyInfo), in place of another or beside it."""
    require_name(role, name)
    record = AskedRecord.enrolling(
        role,
        name,
        public_key,
        writer.clock(),
        _root(writer.keyring),
        rotates=None if rotates is None else rotates.keyid,
    )
    return _of_ledger(writer, record)


def ask_retirement(
    writer: Writer,
    key: EnrolledKey,
    sealed: SignedCheckpoint,
    *,
    compromised: bool,
    reason: str,
) -> SigningRequest:
    """A request to end a key, trusted as far as `sealed`, a checkpoint that this ledger keeps.

    Raises `NoInput` or `BadData` where it keeps another or none (`checkpoint_of` finds one), `Misuse` where
    no log key whose trust reaches that far signed it.
    """
    require_text("--reason", reason, REASON_BYTES_MAX)
    event = KeyRetired(
        keyid=key.keyid,
        compromised=compromised,
        reason=reason,
        size=sealed.checkpoint.size,
        checkpoint=log_part(writer.keyring, sealed).raw.decode(),
    )
    writer.require_lawful(event)
    return _of_ledger(writer, AskedRecord.of(event, writer.clock(), _root(writer.keyring)))


def ask_resolution(
    log: TaskLog,
    decision: Literal["proceed", "halt", "reject"],
    *,
    name: str,
    meaning: str,
    comment: str = "",
) -> SigningRequest:
    """A request for a person's resolution of the escalation that waits, by an authority key.

    Where several are enrolled, any of them: it is for the person to sign with their own. Raises `Misuse`
    where none waits.
    """
    event = resolution(log, decision, name=name, meaning=meaning, comment=comment)
    writer = log.writer
    keys = writer.keyring.active("authority")
    keyid = keys[0].keyid if len(keys) == 1 else None
    record = AskedRecord.of(event, writer.clock(), keyid)
    return _asking(writer, log.stream, log.tip, record)


def signed_past(store: Store, keyid: str, size: int) -> int:
    """How many records from ordinal `size` on are signed with this key id."""
    count = ordinal = after = 0
    mark = b"\n" + keyid.encode() + b" "
    while page := store.rows(after=after):
        for row_id, row in page:
            count += ordinal >= size and mark in row.record
            ordinal, after = ordinal + 1, row_id
    return count


# ── signing and storing ──────────────────────────────────────────────────────────────────────────────


def sign_here(request: SigningRequest, folder: KeyFolder) -> tuple[SigningRequest, list[Want]]:
    """The request with what the keys in `folder` can sign, and what that was."""
    return request.sign(cache(folder.find))  # an encrypted key is slow to open


def require_here(folder: KeyFolder, key: EnrolledKey) -> None:
    """Raise `Denied` where a key that has to sign is not in `folder`."""
    if folder.find(key.role, key.keyid) is None:
        raise Denied(
            f"{folder.file_of(key.role)}: the {key.role} key is not here, expected {key.keyid[:8]}…",
            hint=_ELSEWHERE,
        )


def require_whole(request: SigningRequest, folder: KeyFolder) -> None:
    """Raise `Denied` where a signature is still wanted, saying whose, and how to get it."""
    for want in request.wants():
        raise Denied(
            f"{folder.path}: the {named(want)} key is not here, and its signature is wanted",
            hint=_ELSEWHERE,
        )


def submit(writer: Writer, request: SigningRequest) -> list[Written]:
    """Store a signed request on the stream `ledger`. Raises what `Batch.admit` and `Batch.commit` raise."""
    _require_of(writer, request)
    records = request.signed_records()
    _require_new(writer.store, request, records)
    batch = writer.batch()
    for raw in records:
        batch.admit(raw)
    return batch.commit()


def submit_resolution(log: TaskLog, request: SigningRequest) -> ResolutionRecorded:
    """Store a signed resolution, and what follows from it, which the engine signs here.

    Raises `Misuse` where the escalation no longer waits for it, `VersionConflict` where the task moved on.
    """
    _require_of(log.writer, request)
    if request.stream != log.stream:
        raise Misuse(f"request: expected one on {log.stream}, found one on {request.stream}")
    (raw,) = request.signed_records()
    _require_new(log.writer.store, request, [raw])
    if (request.version - 1, request.previous) != log.tip:
        raise VersionConflict(
            f"{log.stream}: the request follows v{request.version - 1}, and the task is at v{log.tip[0]}",
            hint="the task moved on since the request was written: write it again",
        )
    with log.transaction() as draft:
        written = draft.admit(raw)
        draft.follow()
    return cast(ResolutionRecorded, written.event)


def _require_new(store: Store, request: SigningRequest, records: Sequence[bytes]) -> None:
    """Raise `Misuse` where all of it is stored: whoever submits it twice is not to write it again."""
    stored = store.stream(request.stream, after=request.version - 1)[: len(records)]
    if [row.record for row in stored] == list(records):
        raise Misuse(
            f"request: expected one to be stored, found it stored as {request.stream} v{request.version}",
            hint="nothing is left to do with it: causebook log shows its records",
        )


def task_of(request: SigningRequest) -> str | None:
    """The task that a request is about; None for one on the stream `ledger`."""
    return parse_stream(request.stream).task


def settle(folder: KeyFolder, records: Sequence[Written], keyring: Keyring) -> None:
    """Give each key that was just enrolled in place of another the file of its role, where both are here."""
    for written in records:
        for key in keyring.keys.values():
            if key.enrolled == written.version and key.rotates is not None:
                folder.settle(key.role, key.rotates, key.keyid)


def _root(keyring: Keyring) -> str:
    return keyring.active("root")[0].keyid


def _of_ledger(writer: Writer, record: AskedRecord) -> SigningRequest:
    return _asking(writer, LEDGER, writer.ledger_tip, record)


def _asking(writer: Writer, stream: str, tip: Tip, record: AskedRecord) -> SigningRequest:
    keyring = writer.keyring
    return asking(writer.origin, keyring.nonce, keyring.root_key, stream, tip, [record])


def _require_of(writer: Writer, request: SigningRequest) -> None:
    if request.is_founding:
        raise Misuse(
            "request: expected one of a ledger that exists, found one that founds a ledger",
            hint="causebook init --signed FILE founds it",
        )
    founding = (writer.origin, writer.keyring.nonce, writer.keyring.root_key)
    if (request.ledger, request.nonce, request.root_key) != founding:
        raise BadData(
            f"request: expected one of {writer.origin} as it was founded here, found one of "
            f"{shorten(request.ledger)} or of another founding",
            hint="--ledger names the ledger it was written for",
        )
