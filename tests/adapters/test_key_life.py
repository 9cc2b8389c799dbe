"""Keys that come and go, on both stores: enrolled, rotated, retired, here and elsewhere."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from causebook.adapters.findings import UNVERIFIABLE
from causebook.adapters.founding import (
    HERE,
    ask_founding,
    require_founding,
    sign_with,
    store_founding,
)
from causebook.adapters.kept_checkpoints import checkpoint_of, require_kept
from causebook.adapters.key_life import (
    ask_enrolment,
    ask_resolution,
    ask_retirement,
    key_named,
    require_whole,
    settle,
    sign_here,
    signed_past,
    submit,
    submit_resolution,
)
from causebook.adapters.keys import ROLES, KeyFolder, Signer
from causebook.adapters.ledger import Ledger
from causebook.adapters.store.url import found
from causebook.adapters.writer import utc_now
from causebook.domain.checkpoint import Checkpoint, SignedCheckpoint
from causebook.domain.errors import (
    BadData,
    CannotCreate,
    CausebookError,
    Denied,
    Misuse,
    NoInput,
    VersionConflict,
)
from causebook.domain.events import KeyEnrolled, KeyRetired, Role
from causebook.domain.note import Note, NoteKey, sign_note
from causebook.domain.record import parse
from causebook.domain.signing_request import AskedRecord, SigningRequest, asking
from causebook.domain.streams import LEDGER

from .forge import Key, verdict
from .ledgers import Home, hear_each, judges


@pytest.fixture
def home(store_url: str, tmp_path: Path) -> Home:
    """A founded ledger, all of whose keys lie in one folder."""
    return Home.found(store_url, tmp_path)


def enrol(ledger: Ledger, folder: KeyFolder, role: Role) -> Signer:
    """Enrol a new key beside those that are there."""
    signer, _ = folder.add(role, None, beside=False)
    request = ask_enrolment(ledger.writer, role, role, signer.public_key)
    submit(ledger.writer, sign_here(request, folder)[0])
    return signer


def rotation(ledger: Ledger, folder: KeyFolder, role: Role) -> tuple[Signer, SigningRequest]:
    """A new key for a role, on disk, and the signed request that puts it in place of the newest."""
    old = ledger.writer.keyring.active(role)[0]
    signer, _ = folder.add(role, None, beside=True)
    request = ask_enrolment(ledger.writer, role, old.name, signer.public_key, rotates=old)
    return signer, sign_here(request, folder)[0]


def rotate(ledger: Ledger, folder: KeyFolder, role: Role) -> Signer:
    signer, request = rotation(ledger, folder, role)
    settle(folder, submit(ledger.writer, request), ledger.writer.keyring)
    return signer


def retire(ledger: Ledger, folder: KeyFolder, keyid: str, size: int) -> None:
    """End a key, trusted as far as the sealed checkpoint of that size."""
    sealed = checkpoint_of(ledger.store, ledger.origin, size)
    key = ledger.writer.keyring.keys[keyid]
    request = ask_retirement(ledger.writer, key, sealed, compromised=True, reason="lost")
    submit(ledger.writer, sign_here(request, folder)[0])


def work(ledger: Ledger, task: str) -> str:
    """Start an attempt at a task; the id of the key that signed it."""
    ledger.task(task).start_attempt()
    return parse(ledger.store.stream(f"task/{task}")[-1].record).keyid


# ── enrolling and rotating ───────────────────────────────────────────────────────────────────────────


def test_a_key_signs_once_it_is_enrolled_and_the_newest_signs_first(home: Home) -> None:
    folder = KeyFolder(home.keys)
    with home.open() as ledger:
        first = folder.signer("engine").keyid
        assert work(ledger, "T-1") == first
        second = enrol(ledger, folder, "engine")
        assert folder.locate("engine", second.keyid) == folder.file_beside("engine", second.keyid)
    with home.open() as ledger:
        assert work(ledger, "T-2") == second.keyid
    home.require_intact()


def test_a_key_for_a_role_that_has_none_gets_the_file_of_its_role(home: Home) -> None:
    with home.open() as ledger:
        folder = KeyFolder(home.keys)
        signer = enrol(ledger, folder, "exporter")
        assert folder.signer("exporter").keyid == signer.keyid
        assert ledger.writer.signer("exporter").keyid == signer.keyid
    home.require_intact()


@pytest.mark.parametrize("role", ["engine", "authority", "log"])
def test_a_rotated_key_hands_over_its_file_and_counts_on_until_it_is_retired(
    role: Role, home: Home
) -> None:
    folder = KeyFolder(home.keys)
    old = folder.signer(role).keyid
    with home.open() as ledger:
        new = rotate(ledger, folder, role)
        assert folder.signer(role).keyid == new.keyid
        assert folder.locate(role, old) == folder.file_beside(role, old)
        assert ledger.writer.keyring.may_sign(old, _signed_by(role)) is None or role == "log"
        work(ledger, "T-1")
        assert ledger.seal().size == len(home.rows())
    assert {path.name for path in home.keys.glob(f"{role}*.pem")} == {
        f"{role}.pem",
        f"{role}-{old[:8]}.pem",
    }
    home.require_intact()


def _signed_by(role: Role) -> str:
    return {"engine": "TaskOpened", "authority": "EvidenceErased"}.get(role, "TaskOpened")


def _nothing(home: Home, ledger: Ledger) -> None:
    """The new key is on disk, and the power went."""
    rotation(ledger, KeyFolder(home.keys), "engine")


def _enrolled(home: Home, ledger: Ledger) -> None:
    """It is enrolled, and the power went before its file was renamed."""
    submit(ledger.writer, rotation(ledger, KeyFolder(home.keys), "engine")[1])


def _half_renamed(home: Home, ledger: Ledger) -> None:
    """The old key has its second name, and the power went before the new one got the role's."""
    folder = KeyFolder(home.keys)
    old = folder.signer("engine").keyid
    submit(ledger.writer, rotation(ledger, folder, "engine")[1])
    os.link(folder.file_of("engine"), folder.file_beside("engine", old))


@pytest.mark.parametrize("crash", [_nothing, _enrolled, _half_renamed])
def test_a_rotation_cut_short_leaves_a_folder_that_works_and_can_be_finished(
    crash: Callable[[Home, Ledger], None], home: Home
) -> None:
    folder = KeyFolder(home.keys)
    old = folder.signer("engine").keyid
    with home.open() as ledger:
        crash(home, ledger)
    with home.open() as ledger:
        keyring = ledger.writer.keyring
        assert work(ledger, "T-1") == keyring.active("engine")[0].keyid
        spare = folder.spare("engine", keyring.keys)
        if crash is _nothing:
            assert spare is not None
            request = ask_enrolment(
                ledger.writer, "engine", "e", spare[0].public_key, rotates=keyring.keys[old]
            )
            submit(ledger.writer, sign_here(request, folder)[0])
        else:
            assert spare is None
        new = ledger.writer.keyring.active("engine")[0]
        assert new.rotates == old
        folder.settle("engine", old, new.keyid)
        folder.settle("engine", old, new.keyid)
        assert folder.signer("engine").keyid == new.keyid
        assert folder.locate("engine", old) == folder.file_beside("engine", old)
        assert len(list(home.keys.glob("engine*.pem"))) == 2
    with home.open() as ledger:
        assert work(ledger, "T-2") == new.keyid
    home.require_intact()


def test_a_rotation_of_a_key_that_has_not_the_roles_file_renames_nothing(home: Home) -> None:
    folder = KeyFolder(home.keys)
    first = folder.signer("engine").keyid
    with home.open() as ledger:
        enrol(ledger, folder, "engine")
        third = rotate(ledger, folder, "engine")
        assert folder.signer("engine").keyid == first
        assert folder.locate("engine", third.keyid) == folder.file_beside("engine", third.keyid)
        assert ledger.writer.signer("engine").keyid == third.keyid


# ── retiring ─────────────────────────────────────────────────────────────────────────────────────────


def test_what_a_retired_key_signed_below_the_checkpoint_holds(home: Home) -> None:
    folder = KeyFolder(home.keys)
    with home.open() as ledger:
        old = work(ledger, "T-1") and folder.signer("engine").keyid
        new = rotate(ledger, folder, "engine")
        size = ledger.seal().size
        retire(ledger, folder, old, size)
        assert signed_past(ledger.store, old, size) == 0
        assert work(ledger, "T-2") == new.keyid
    home.require_intact()


def test_what_it_signed_past_the_checkpoint_is_unverifiable_and_never_tampered(home: Home) -> None:
    folder = KeyFolder(home.keys)
    with home.open() as ledger:
        size = ledger.seal().size
        old = work(ledger, "T-1")
        assert signed_past(ledger.store, old, size) == 2
        rotate(ledger, folder, "engine")
        retire(ledger, folder, old, size)
    report = home.verify()
    assert report.codes == [UNVERIFIABLE]
    assert {finding.place for finding in report.findings} == {"task/T-1 v1", "task/T-1 v2"}
    assert {finding.check for finding in report.findings} == {"roles"}


def test_a_writer_at_work_goes_on_with_the_key_that_took_its_place(home: Home) -> None:
    folder = KeyFolder(home.keys)
    with home.open() as ledger, home.open() as other:
        old = work(ledger, "T-1")
        new = rotate(other, folder, "engine")
        assert work(ledger, "T-2") == old
        retire(other, folder, old, other.seal().size)
        with pytest.raises(Denied, match="the key is retired"):
            work(ledger, "T-3")
        assert work(ledger, "T-3") == new.keyid
    home.require_intact()


def test_a_retired_log_key_seals_no_more_and_its_checkpoints_stand(home: Home) -> None:
    folder = KeyFolder(home.keys)
    with home.open() as ledger:
        old = folder.signer("log")
        work(ledger, "T-1")
        size = ledger.seal().size
        new = rotate(ledger, folder, "log")
        retire(ledger, folder, old.keyid, size)
        sealed = ledger.seal()
        assert sealed.size == size + 2
        key = NoteKey(ledger.origin, _public(new))
        assert [s.keyid for s in sealed.checkpoint.note.signatures] == [key.keyid]
    home.require_intact()


def test_root_is_not_retired_and_no_other_root_is_enrolled(home: Home) -> None:
    folder = KeyFolder(home.keys)
    with home.open() as ledger:
        sealed = checkpoint_of(ledger.store, ledger.origin, ledger.seal().size)
        root = ledger.writer.keyring.active("root")[0]
        with pytest.raises(Misuse, match="a ledger has one root, which is not retired"):
            ask_retirement(ledger.writer, root, sealed, compromised=True, reason="stolen")
        second = Key("another root")
        request = ask_enrolment(ledger.writer, "root", "second", second.text)
        held = {second.keyid: second} | {folder.signer("root").keyid: folder.signer("root")}
        signed, _ = request.sign(lambda _, keyid: held.get(keyid or ""))
        with pytest.raises(Misuse, match="a ledger has one root, which founded it"):
            submit(ledger.writer, signed)
    assert home.kinds(LEDGER) == ["LedgerFounded", *["KeyEnrolled"] * 3]


def test_trust_ends_only_at_a_checkpoint_that_the_ledger_keeps(home: Home) -> None:
    with home.open() as ledger:
        with pytest.raises(NoInput, match="and it has none"):
            checkpoint_of(ledger.store, ledger.origin, 4)
        kept = ledger.seal().checkpoint
        require_kept(ledger.store, ledger.origin, kept)
        with pytest.raises(NoInput, match=r"expected one of size 3 in .*, and the newest is of 4"):
            checkpoint_of(ledger.store, ledger.origin, 3)
        log = ledger.writer.signer("log")
        text = Checkpoint(ledger.origin, 4, bytes(32)).text
        note = sign_note(text, NoteKey(ledger.origin, _public(log)), log.sign)
        other = SignedCheckpoint.parse(note.raw)
        with pytest.raises(BadData, match="found another under this size"):
            require_kept(ledger.store, ledger.origin, other)


def _forged(ledger: Ledger, size: int, *, more: bool = False) -> str:
    """A checkpoint that the log key signed and the ledger does not keep, unless `more` was added to one."""
    if more:
        kept = checkpoint_of(ledger.store, ledger.origin, size).note
        stranger = Key("stranger")
        signed = sign_note(kept.text, NoteKey("w.example.com", stranger.public), stranger.sign)
        return Note(kept.text, kept.signatures + signed.signatures).raw.decode()
    log = ledger.writer.signer("log")
    text = Checkpoint(ledger.origin, size, bytes(32)).text
    return sign_note(text, NoteKey(ledger.origin, _public(log)), log.sign).raw.decode()


@pytest.mark.parametrize(
    ("size", "more", "error", "why"),
    [
        (500, False, NoInput, r"expected one of size 500 in .*, and the newest is of 4"),
        (4, False, BadData, "found another under this size"),
        (4, True, BadData, "with the log's signature as .* keeps it, found it with others"),
    ],
    ids=["of more records than there are", "of another history", "with another's signature"],
)
def test_no_key_ends_at_a_checkpoint_that_the_ledger_does_not_keep(
    size: int, more: bool, error: type[CausebookError], why: str, home: Home
) -> None:
    """Whoever asks for it, signs it or stores it: `verify` would find the ledger wrong ever after."""
    folder = KeyFolder(home.keys)
    with home.open() as ledger:
        ledger.seal()
        writer = ledger.writer
        key = writer.keyring.active("engine")[0]
        note = _forged(ledger, size, more=more)
        event = KeyRetired(
            keyid=key.keyid, compromised=True, reason="x", size=size, checkpoint=note
        )
        if not more:  # what others signed is left out of what is asked for
            with pytest.raises(error, match=why):
                ask_retirement(
                    writer,
                    key,
                    SignedCheckpoint.parse(note.encode()),
                    compromised=True,
                    reason="x",
                )
        root = writer.keyring.active("root")[0].keyid
        request = asking(
            ledger.origin,
            writer.keyring.nonce,
            writer.keyring.root_key,
            LEDGER,
            writer.ledger_tip,
            [AskedRecord.of(event, writer.clock(), root)],
        )
        with pytest.raises(error, match=why):
            submit(writer, sign_here(request, folder)[0])
        batch = writer.batch()
        batch.add(LEDGER, event)
        with pytest.raises(error, match=why):
            batch.commit()
    assert home.kinds(LEDGER) == ["LedgerFounded", *["KeyEnrolled"] * 3]
    with home.open() as ledger:
        retire(ledger, folder, key.keyid, 4)
    home.require_intact()


def test_cosignatures_stay_with_the_checkpoint(home: Home) -> None:
    """They may be many, and a record is short."""
    with home.open() as ledger:
        sealed = ledger.seal().checkpoint
        stranger = Key("stranger")
        name = NoteKey("witness.example.com", stranger.public)
        signatures = sealed.note.signatures + sign_note("x\n", name, stranger.sign).signatures * 40
        crowded = SignedCheckpoint(
            sealed.checkpoint, type(sealed.note)(sealed.note.text, signatures)
        )
        key = ledger.writer.keyring.active("engine")[0]
        request = ask_retirement(ledger.writer, key, crowded, compromised=False, reason="old")
        event = request.events()[0]
        assert isinstance(event, KeyRetired)
        assert event.checkpoint.encode() == sealed.note.raw


def _public(signer: Signer) -> bytes:
    from causebook.domain.keyring import raw_key

    return raw_key(signer.public_key)


# ── keys elsewhere ───────────────────────────────────────────────────────────────────────────────────


@dataclass
class Apart:
    """A ledger whose root and authority live elsewhere, each in a folder of its own."""

    home: Home
    safe: KeyFolder
    desk: KeyFolder

    @property
    def folder(self) -> KeyFolder:
        return KeyFolder(self.home.keys)


@pytest.fixture
def apart(store_url: str, tmp_path: Path) -> Apart:
    safe, desk = KeyFolder(tmp_path / "safe"), KeyFolder(tmp_path / "desk")
    made = Apart(Home(store_url, tmp_path / "keys"), safe, desk)
    made.folder.make(roles=HERE)
    keys: dict[Role, str] = {
        "root": safe.add("root", None, beside=False)[0].public_key,
        "authority": desk.add("authority", None, beside=False)[0].public_key,
    }
    signers = [made.folder.signer(role) for role in HERE]
    keys |= {role: signer.public_key for role, signer in zip(HERE, signers, strict=True)}
    asked = sign_with(ask_founding("a.example/t", keys, utc_now, apart=True), signers)
    with pytest.raises(BadData, match="no possession signature by authority"):
        require_founding(asked, made.folder)
    asked = SigningRequest.parse(sign_here(asked, desk)[0].raw)
    with pytest.raises(BadData, match="no record signature by root"):
        require_founding(asked, made.folder)
    asked = SigningRequest.parse(sign_here(asked, safe)[0].raw)
    require_founding(asked, made.folder)
    store = found(store_url)
    try:
        for _ in range(2):  # the second finds it stored, byte for byte
            store_founding(store, store_url, asked)
        assert store.count() == 4
        again = ask_founding("a.example/t", keys, utc_now, apart=True)
        for folder in (made.folder, desk, safe):
            again = sign_here(again, folder)[0]
        with pytest.raises(CannotCreate, match="founded here meanwhile"):
            store_founding(store, store_url, again)
    finally:
        store.close()
    return made


def test_a_ledger_whose_root_and_authority_live_elsewhere_is_written_to(apart: Apart) -> None:
    home = apart.home
    assert sorted(path.name for path in home.keys.glob("*.pem")) == ["engine.pem", "log.pem"]
    with home.open() as ledger:
        assert ledger.writer.keyring.custody == "apart"
        work(ledger, "T-1")
        ledger.seal()
    report = home.require_intact()
    assert "self-asserted" not in report["roles"].note


def test_a_founding_for_other_keys_than_those_here_is_refused(apart: Apart, tmp_path: Path) -> None:
    others = KeyFolder(tmp_path / "others")
    others.make()
    keys: dict[Role, str] = {role: others.signer(role).public_key for role in ROLES}
    asked = ask_founding("a.example/t", keys, utc_now, apart=True)
    signed = sign_with(asked, [others.signer(role) for role in ROLES])
    require_founding(signed, others)
    with pytest.raises(Denied, match=r"engine\.pem: expected the engine key that the request"):
        require_founding(signed, apart.folder)


def test_root_elsewhere_enrols_rotates_and_retires_by_requests(apart: Apart) -> None:
    home, folder = apart.home, apart.folder
    with home.open() as ledger:
        old = ledger.writer.signer("engine").keyid
        new, request = rotation(ledger, folder, "engine")
        assert [want.what for want in request.wants()] == ["record"]
        with pytest.raises(Denied, match=r"the root .* key is not here"):
            require_whole(request, folder)
        submit(ledger.writer, sign_here(request, apart.safe)[0])
        sealed = checkpoint_of(ledger.store, ledger.origin, ledger.seal().size)
        ending = ask_retirement(
            ledger.writer,
            key_named(ledger.writer.keyring, old[:8]),
            sealed,
            compromised=False,
            reason="old",
        )
        submit(ledger.writer, sign_here(ending, apart.safe)[0])
        assert work(ledger, "T-1") == new.keyid
    assert home.kinds(LEDGER)[-2:] == ["KeyEnrolled", "KeyRetired"]
    home.require_intact()


def test_a_request_is_stale_once_the_stream_moved_on(apart: Apart) -> None:
    home, folder = apart.home, apart.folder
    with home.open() as ledger:
        _, first = rotation(ledger, folder, "engine")
        _, second = rotation(ledger, folder, "log")
        signed = [sign_here(request, apart.safe)[0] for request in (first, second)]
        submit(ledger.writer, signed[0])
        rows = home.rows()
        with pytest.raises(Misuse, match="found it stored as ledger v5") as refused:
            submit(ledger.writer, signed[0])
        assert "nothing is left to do" in refused.value.hint
        with pytest.raises(VersionConflict, match="expected it to follow v5") as stale:
            submit(ledger.writer, signed[1])
        assert "write it again" in stale.value.hint
    assert home.rows() == rows


def test_an_escalation_is_resolved_by_an_authority_elsewhere(apart: Apart) -> None:
    home = apart.home
    with home.open() as ledger:
        task = ledger.task("T-1")
        panel = task.start_attempt().convene("post_execute", "unanimous", judges("a", "b"))
        hear_each(panel, {"a": [verdict("pass")], "b": [verdict("warn")]})
        log = ledger.task("T-1").log
        asked = ask_resolution(log, "proceed", name="Ada", meaning="risk accepted")
        authority = apart.desk.signer("authority").keyid
        assert [(w.role, w.keyid) for w in asked.wants()] == [("authority", authority)]
        signed = SigningRequest.parse(sign_here(asked, apart.desk)[0].raw)
        assert submit_resolution(log, signed).name == "Ada"
        assert log.state.status == "completed"
        with pytest.raises(Misuse, match="found it stored as task/T-1 v6"):
            submit_resolution(log, signed)
    assert home.kinds("task/T-1")[-3:] == [
        "ResolutionRecorded", "AttemptClosed", "TaskCompleted",
    ]  # fmt: skip
    home.require_intact()


def test_a_resolution_waits_for_an_escalation_and_for_its_own(apart: Apart) -> None:
    with apart.home.open() as ledger:
        task = ledger.task("T-1")
        task.start_attempt()
        with pytest.raises(Misuse, match="only an escalation can be resolved"):
            ask_resolution(task.log, "proceed", name="Ada", meaning="x")


# ── what is refused before it is stored ──────────────────────────────────────────────────────────────


def test_a_record_for_another_ledger_is_refused(home: Home, tmp_path: Path) -> None:
    other = Home.found(f"sqlite:///{tmp_path / 'other.db'}", tmp_path / "o")
    with home.open() as ledger, other.open() as theirs:
        _, request = rotation(theirs, KeyFolder(other.keys), "engine")
        with pytest.raises(BadData, match="or of another founding"):
            submit(ledger.writer, request)
        with pytest.raises(VersionConflict):
            ledger.writer.batch().admit(request.signed_records()[0])


def test_nothing_that_would_spoil_the_keyring_is_stored(home: Home) -> None:
    """A ledger whose own stream does not hold could never be written to again."""
    with home.open() as ledger:
        key = ledger.writer.keyring.active("log")[0]
        enrolled = KeyEnrolled(
            role="engine",
            name="e",
            public_key=Key("new").text,
            possession="A" * 86 + "==",
            rotates=None,
            handover=None,
        )
        retired = KeyRetired(
            keyid=key.keyid, compromised=False, reason="x", size=4, checkpoint="sealed"
        )
        for event, why in ((enrolled, "possession"), (retired, "checkpoint: note")):
            batch = ledger.writer.batch()
            batch.add(LEDGER, event)
            with pytest.raises(Misuse, match=why):
                batch.commit()
    assert home.kinds(LEDGER) == ["LedgerFounded", *["KeyEnrolled"] * 3]


def test_a_missing_key_is_named_with_where_it_may_be(home: Home) -> None:
    keyid = KeyFolder(home.keys).signer("authority").keyid
    KeyFolder(home.keys).file_of("authority").unlink()
    with home.open() as ledger:
        with pytest.raises(
            Denied, match=f"the authority key is not here, expected {keyid[:8]}…"
        ) as r:
            ledger.writer.signer("authority")
        assert "--request" in r.value.hint


@pytest.mark.parametrize(
    "text", ["", "engin", "0" * 7, "0" * 8, "witness", "\x1b[2J", "root" * 100]
)
def test_a_name_of_no_key_is_refused(text: str, home: Home) -> None:
    with home.open() as ledger, pytest.raises(NoInput, match="expected a role, or the id") as r:
        key_named(ledger.writer.keyring, text)
    assert r.value.message.isprintable()


# ── signing and the store's lock ─────────────────────────────────────────────────────────────────────


class Probing:
    """A signer that looks, whenever it signs, whether anybody could write to the store just now."""

    def __init__(self, signer: Signer, url: str) -> None:
        self._signer = signer
        self._url = url
        self.keyid, self.public_key = signer.keyid, signer.public_key
        self.signed = 0

    def sign(self, message: bytes) -> bytes:
        require_unlocked(self._url)
        self.signed += 1
        return self._signer.sign(message)


def require_unlocked(url: str) -> None:
    """Raise where a transaction holds what an append has to wait for."""
    if url.startswith("sqlite:///"):
        connection = sqlite3.connect(
            url.removeprefix("sqlite:///"), timeout=0, isolation_level=None
        )
        try:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("ROLLBACK")
        finally:
            connection.close()
        return
    import psycopg

    with psycopg.connect(url) as session:
        session.execute("LOCK TABLE causebook.stored_events IN EXCLUSIVE MODE NOWAIT")
        session.rollback()


def test_no_lock_of_the_store_is_held_while_a_key_signs(home: Home) -> None:
    """So that a service that takes seconds to sign keeps nobody from writing."""
    folder = KeyFolder(home.keys)
    probes: dict[Role, Probing] = {}
    with home.open() as ledger:

        def probing(role: Role, keys: object) -> Signer:
            return probes.setdefault(role, Probing(folder.signer(role), home.url))

        ledger.writer.signer_for = probing
        panel = ledger.task("T-1").start_attempt().convene("post_execute", "any", judges("a"))
        hear_each(panel, {"a": [verdict("pass")]})
        ledger.seal()
    assert probes["engine"].signed > 5
    assert probes["log"].signed == 1
    home.require_intact()


def test_the_probe_sees_a_lock_that_is_held(home: Home) -> None:
    require_unlocked(home.url)
    if home.url.startswith("sqlite:///"):
        holder = sqlite3.connect(home.url.removeprefix("sqlite:///"), isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            require_unlocked(home.url)
        holder.close()
        return
    import psycopg

    with psycopg.connect(home.url) as session:
        session.execute("LOCK TABLE causebook.stored_events IN EXCLUSIVE MODE")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            require_unlocked(home.url)
