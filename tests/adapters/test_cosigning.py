"""Sealing with witnesses: real ones over HTTP, asked before anything is signed, and to cosign it after."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from causebook.adapters.ledger import Ledger
from causebook.adapters.sealing.cosigned import with_cosignatures
from causebook.adapters.signatures import verify
from causebook.adapters.witness.client import WitnessClient, WitnessConflict, WitnessRefused
from causebook.adapters.witness.server import WitnessServer
from causebook.domain.checkpoint import (
    Checkpoint,
    SignedCheckpoint,
    cosign,
    cosignature_by,
)
from causebook.domain.errors import BadData, LogForked, SealRefused, StoreUnavailable
from causebook.domain.events import TaskOpened
from causebook.domain.keyring import raw_key
from causebook.domain.note import Note, NoteKey, NoteSignature, sign_note
from tests.adapters.ledgers import Home
from tests.adapters.logs import private_key, witness_key
from tests.adapters.witnesses import make_witness, serving
from tests.attacks.intruder import Intruder

W1, W2 = "w1.example/w", "w2.example/w"


@pytest.fixture
def home(store_url: str, tmp_path: Path) -> Home:
    return Home.found(store_url, tmp_path)


@pytest.fixture
def ledger(home: Home) -> Iterator[Ledger]:
    with home.open() as opened:
        yield opened


def log_key(ledger: Ledger) -> NoteKey:
    return NoteKey(ledger.origin, raw_key(ledger.writer.signer("log").public_key))


@pytest.fixture
def witnesses(ledger: Ledger, tmp_path: Path) -> Iterator[list[WitnessServer]]:
    made = [
        make_witness(tmp_path / name[:2], name, [log_key(ledger)], lambda: 1_800_000_000)
        for name in (W1, W2)
    ]
    with serving(made[0]) as one, serving(made[1]) as two:
        yield [one, two]


def clients(servers: Sequence[WitnessServer]) -> list[WitnessClient]:
    return [
        WitnessClient(server.url, witness_key(name))
        for server, name in zip(servers, (W1, W2), strict=False)
    ]


def add_records(ledger: Ledger, count: int, name: str = "t") -> None:
    batch = ledger.writer.batch()
    for number in range(count):
        batch.add(f"task/{name}-{number}", TaskOpened(task=f"{name}-{number}", spec=None))
    batch.commit()


def test_each_checkpoint_is_cosigned_and_kept_with_its_cosignatures(
    ledger: Ledger, witnesses: list[WitnessServer]
) -> None:
    for number in range(3):
        add_records(ledger, 200, f"t{number}")
        sealed = ledger.seal(witnesses=clients(witnesses))
        assert [line.name for line in sealed.cosignatures] == [W1, W2]
        assert sealed.failures == ()
        row = ledger.store.checkpoint()
        assert row is not None
        assert len(row.cosignatures) == 2
        whole = with_cosignatures(row.note, row.cosignatures)
        assert whole.checkpoint == sealed.checkpoint.checkpoint
        for name in (W1, W2):
            assert cosignature_by(whole.note, witness_key(name), verify) is not None


def test_a_witness_that_comes_later_is_shown_the_whole(
    ledger: Ledger, witnesses: list[WitnessServer]
) -> None:
    one, two = clients(witnesses)
    ledger.seal(witnesses=[one])
    add_records(ledger, 3)
    ledger.seal()
    assert ledger.seal(witnesses=[one, two]).failures == ()
    row = ledger.store.checkpoint()
    assert row is not None
    assert len(row.cosignatures) == 2


def test_a_witness_that_is_down_is_not_signed_without(ledger: Ledger) -> None:
    with pytest.raises(StoreUnavailable):
        ledger.seal(witnesses=[WitnessClient("http://127.0.0.1:9", witness_key(W1), seconds=2)])
    assert ledger.store.checkpoints() == []
    assert ledger.seal().size == 4  # left out, it is


def test_a_store_behind_its_witness_was_rolled_back(
    ledger: Ledger, witnesses: list[WitnessServer], store_url: str
) -> None:
    """Even with the memory gone, and another put in its place: the witness remembers."""
    first = ledger.seal().checkpoint
    add_records(ledger, 3)
    ledger.seal(witnesses=clients(witnesses))
    with Intruder(store_url) as intruder:
        for number in range(3):
            intruder.delete(f"task/t-{number}", 1)
        intruder.sql("DELETE FROM checkpoint_additions")
        intruder.sql("DELETE FROM checkpoints WHERE size > 4")
    ledger.sealer.memory.write(first)
    add_records(ledger, 1, "u")
    with pytest.raises(SealRefused, match="expected 7 records or more, as witness http") as refused:
        ledger.seal(witnesses=clients(witnesses))
    assert not isinstance(refused.value, LogForked)
    add_records(ledger, 9, "v")
    with pytest.raises(LogForked, match=r"size 7: expected root .*, as witness http"):
        ledger.seal(witnesses=clients(witnesses))
    assert [row.size for row in ledger.store.checkpoints()] == [4]


class Reticent:
    """A witness that shows nothing, as C2SP allows: only its conflicts name its size."""

    def __init__(self, client: WitnessClient) -> None:
        self._client = client
        self.url = client.url

    def newest(self, origin: str) -> SignedCheckpoint | None:
        return None

    def add_checkpoint(
        self, old_size: int, path: Sequence[bytes], note: Note
    ) -> Sequence[NoteSignature]:
        return self._client.add_checkpoint(old_size, path, note)


def test_a_witness_that_shows_nothing_is_asked_by_what_was_sealed_before(
    ledger: Ledger, witnesses: list[WitnessServer], store_url: str
) -> None:
    reticent = [Reticent(client) for client in clients(witnesses)]
    assert len(ledger.seal(witnesses=reticent).cosignatures) == 2
    first = ledger.seal().checkpoint
    add_records(ledger, 3)
    assert len(ledger.seal(witnesses=reticent).cosignatures) == 2
    with Intruder(store_url) as intruder:
        for number in range(3):
            intruder.delete(f"task/t-{number}", 1)
        intruder.sql("DELETE FROM checkpoint_additions")
        intruder.sql("DELETE FROM checkpoints WHERE size > 4")
    ledger.sealer.memory.write(first)
    add_records(ledger, 1, "u")
    with pytest.raises(SealRefused, match="expected 7 records or more, as witness http"):
        ledger.seal(witnesses=reticent)


class Scripted:
    """A witness of a test's own making."""

    url = "https://w.example"

    def __init__(
        self,
        *,
        shows: SignedCheckpoint | None = None,
        answers: Sequence[NoteSignature | Exception] = (),
    ) -> None:
        self._shows = shows
        self._answers = list(answers)
        self.asked: list[tuple[int, int]] = []

    def newest(self, origin: str) -> SignedCheckpoint | None:
        return self._shows

    def add_checkpoint(
        self, old_size: int, path: Sequence[bytes], note: Note
    ) -> Sequence[NoteSignature]:
        self.asked.append((old_size, len(path)))
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return [answer]


def test_a_witness_that_shows_what_the_log_never_signed_stops_the_seal(ledger: Ledger) -> None:
    said = Checkpoint(ledger.origin, 4, bytes(32))
    note = sign_note(said.text, replace(witness_key("thief"), name=ledger.origin, kind=1), _thief)
    with pytest.raises(BadData, match=r"no log key of audit\.example\.com/team signed"):
        ledger.seal(witnesses=[Scripted(shows=SignedCheckpoint(said, note))])
    assert ledger.store.checkpoints() == []


def _thief(message: bytes) -> bytes:
    return private_key("thief").sign(message)


def test_a_conflict_after_signing_is_answered_with_a_proof_from_there(ledger: Ledger) -> None:
    add_records(ledger, 6)
    line = NoteSignature(W1, b"abcd", bytes(72))
    witness = Scripted(answers=[WitnessConflict("expected 5", 5), line])
    sealed = ledger.seal(witnesses=[witness])
    assert sealed.cosignatures == (line,)
    assert [size for size, _ in witness.asked] == [0, 5]
    assert witness.asked[1][1] > 0


def test_the_same_size_with_another_root_is_a_fork_before_anything_is_signed(
    ledger: Ledger,
) -> None:
    ledger.seal()
    add_records(ledger, 1)
    with pytest.raises(LogForked, match="another root of size 4"):
        ledger.seal(witnesses=[Scripted(answers=[WitnessConflict("another root of size 4", 4)])])
    assert [row.size for row in ledger.store.checkpoints()] == [4]


def test_a_witness_that_refuses_leaves_the_checkpoint_without_it(ledger: Ledger) -> None:
    refusal = WitnessRefused("does not know this log")
    sealed = ledger.seal(witnesses=[Scripted(answers=[refusal])])
    assert (sealed.size, sealed.cosignatures) == (4, ())
    assert sealed.failures == (("https://w.example", refusal),)
    add_records(ledger, 1)
    again = ledger.seal(witnesses=[Scripted(answers=[refusal, refusal])])
    assert (again.size, len(again.failures)) == (5, 1)


def test_a_line_in_the_logs_own_name_is_not_kept(ledger: Ledger) -> None:
    line = NoteSignature(ledger.origin, log_key(ledger).keyid, bytes(64))
    sealed = ledger.seal(witnesses=[Scripted(answers=[line])])
    assert (sealed.cosignatures, len(sealed.failures)) == ((), 1)
    row = ledger.store.checkpoint()
    assert row is not None
    assert row.cosignatures == ()


# ── a checkpoint with what is kept beside it ─────────────────────────────────────────────────────────


def cosigned_line(text: str, name: str, time_seconds: int) -> bytes:
    return cosign(text, witness_key(name), time_seconds, private_key(name).sign).line.encode()


def test_of_each_witness_the_newest_cosignature_is_shown(ledger: Ledger) -> None:
    note = ledger.seal().checkpoint.note
    lines = [cosigned_line(note.text, W1, time) for time in (5, 900, 7)]
    lines.append(cosigned_line(note.text, W2, 3))
    whole = with_cosignatures(note.raw, [*lines, b"junk\n", b"\xff\n"]).note
    assert [signature.name for signature in whole.signatures] == [ledger.origin, W1, W2]
    found = cosignature_by(whole, witness_key(W1), verify)
    assert found is not None
    assert found.time_seconds == 900


def test_a_note_takes_no_more_signatures_than_a_reader_does(ledger: Ledger) -> None:
    note = ledger.seal().checkpoint.note
    lines = [cosigned_line(note.text, f"w{number}.example", 5) for number in range(100)]
    assert len(with_cosignatures(note.raw, lines).note.signatures) == 64
