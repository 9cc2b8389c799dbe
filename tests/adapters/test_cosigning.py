"""Sealing with witnesses: real ones over HTTP, asked before anything is signed, and to cosign it after."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from causebook.adapters.key_life import ask_enrolment, sign_here, submit
from causebook.adapters.keys import KeyFolder
from causebook.adapters.ledger import Ledger
from causebook.adapters.sealing.cosigned import COSIGNATURES_MAX, takes, with_cosignatures
from causebook.adapters.signatures import verify
from causebook.adapters.store.port import CheckpointRow
from causebook.adapters.witness.client import WitnessClient, WitnessConflict, WitnessRefused
from causebook.adapters.witness.server import WitnessServer
from causebook.domain.checkpoint import (
    Checkpoint,
    SignedCheckpoint,
    cosign,
    cosignature_by,
)
from causebook.domain.errors import BadData, Denied, LogForked, SealRefused, StoreUnavailable
from causebook.domain.events import TaskOpened
from causebook.domain.keyring import raw_key
from causebook.domain.note import (
    NOTE_BYTES_MAX,
    Note,
    NoteKey,
    NoteSignature,
    parse_signature,
    sign_note,
)
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
        self.url, self.key = client.url, client.key

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


Answer = Callable[[Note], NoteSignature]


def by(name: str, time_seconds: int = 1_800_000_000) -> Answer:
    """A witness's cosignature on what it is asked for."""
    return lambda note: cosign(note.text, witness_key(name), time_seconds, private_key(name).sign)


class Scripted:
    """A witness of a test's own making, known by the key of `W1` unless another is given."""

    url = "https://w.example"

    def __init__(
        self,
        *answers: Answer | Sequence[Answer] | Exception,
        shows: SignedCheckpoint | None = None,
        key: NoteKey | None = witness_key(W1),  # noqa: B008 - a value
    ) -> None:
        self.key = key
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
        return [each(note) for each in ([answer] if callable(answer) else answer)]


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
    witness = Scripted(WitnessConflict("expected 5", 5), by(W1))
    sealed = ledger.seal(witnesses=[witness])
    assert sealed.cosignatures == (by(W1)(sealed.checkpoint.note),)
    assert [size for size, _ in witness.asked] == [0, 5]
    assert witness.asked[1][1] > 0


def test_the_same_size_with_another_root_is_a_fork_before_anything_is_signed(
    ledger: Ledger,
) -> None:
    ledger.seal()
    add_records(ledger, 1)
    with pytest.raises(LogForked, match="another root of size 4"):
        ledger.seal(witnesses=[Scripted(WitnessConflict("another root of size 4", 4))])
    assert [row.size for row in ledger.store.checkpoints()] == [4]


def test_a_witness_that_refuses_what_was_signed_leaves_it_without_it(ledger: Ledger) -> None:
    refusal = WitnessRefused("does not know this log")
    sealed = ledger.seal(witnesses=[Scripted(refusal)])
    assert (sealed.size, sealed.cosignatures) == (4, ())
    assert sealed.failures == (("https://w.example", refusal),)


def test_a_witness_that_refuses_what_was_sealed_before_stops_the_seal(ledger: Ledger) -> None:
    """It may have seen more: a seal that went on would have proved nothing against it."""
    ledger.seal()
    add_records(ledger, 1)
    witness = Scripted(WitnessRefused("does not know this log"))
    with pytest.raises(WitnessRefused, match="does not know this log; nothing is signed") as told:
        ledger.seal(witnesses=[witness])
    assert "\n" not in told.value.message
    assert [row.size for row in ledger.store.checkpoints()] == [4]
    assert ledger.seal().size == 5  # the twin, without it


# ── whose lines are kept ─────────────────────────────────────────────────────────────────────────────


def kept(ledger: Ledger) -> list[str]:
    """Who cosigned the newest checkpoint, by the lines kept beside it."""
    row = ledger.store.checkpoint()
    assert row is not None
    return [parse_signature(line.decode()[:-1]).name for line in row.cosignatures]


def unlike(answer: Answer) -> Answer:
    """A line that claims the same key and does not hold."""
    return lambda note: replace(answer(note), signature=bytes(8) + bytes(64))


def of_the_log(ledger: Ledger) -> Answer:
    return lambda note: NoteSignature(ledger.origin, log_key(ledger).keyid, bytes(72))


def enrol_witness(home: Home, name: str) -> NoteKey:
    """Enrol the key that a test's witness of that name has."""
    folder = KeyFolder(home.keys)
    raw = private_key(name).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    folder.file_of("witness").touch(0o600)
    folder.file_of("witness").write_bytes(raw)
    with home.open() as ledger:
        public = folder.signer("witness").public_key
        request = ask_enrolment(ledger.writer, "witness", name, public)
        submit(ledger.writer, sign_here(request, folder)[0])
    return witness_key(name)


def test_a_witness_whose_key_nobody_knows_is_refused_before_anything_is_signed(
    ledger: Ledger,
) -> None:
    witness = Scripted(by(W1), key=None)
    with pytest.raises(Denied, match="expected its key to be known, found none") as told:
        ledger.seal(witnesses=[witness])
    assert "keys enrol witness" in told.value.hint
    assert witness.asked == []
    assert ledger.store.checkpoints() == []


def test_of_a_witness_without_a_key_the_lines_of_enrolled_ones_are_kept(home: Home) -> None:
    enrol_witness(home, W1)
    with home.open() as ledger:
        answer = [by(W2), by(W1), unlike(by("w3.example"))]
        sealed = ledger.seal(witnesses=[Scripted(answer, key=None)])
        assert [line.name for line in sealed.cosignatures] == [W1]
        assert kept(ledger) == [W1]


SPOILT: dict[str, Sequence[Answer]] = {
    "of nobody known": [by("stranger.example")],
    "a known key's that does not hold": [unlike(by(W1))],
    "a good and a bad one": [by(W1), unlike(by(W1))],
}


@pytest.mark.parametrize("lines", SPOILT)
@pytest.mark.parametrize("named", [True, False])
def test_no_line_is_kept_where_one_is(home: Home, lines: str, named: bool) -> None:
    key = enrol_witness(home, W1)
    with home.open() as ledger:
        witness = Scripted(SPOILT[lines], key=key if named else None)
        sealed = ledger.seal(witnesses=[witness])
        assert (sealed.cosignatures, len(sealed.failures)) == ((), 1)
        assert kept(ledger) == []


def test_a_witness_cannot_leave_lines_in_the_name_of_another(ledger: Ledger) -> None:
    """Nor in the log's: neither could ever be deleted, and who knows the other would find it spoilt."""
    answer = [unlike(by(W2)), by(W1), of_the_log(ledger)]
    assert len(ledger.seal(witnesses=[Scripted(answer)]).cosignatures) == 1
    assert kept(ledger) == [W1]


# ── a log that nothing is added to ───────────────────────────────────────────────────────────────────


def test_an_idle_log_keeps_a_line_an_hour(ledger: Ledger) -> None:
    start, since = 1_800_000_000, [0, 60, 3599, 3600, 3660, 7199, 7200]
    # What is sealed already it is asked twice: how far it has seen the log, and to cosign.
    answers = [by(W1, start), *(by(W1, start + time) for time in since[1:] for _ in range(2))]
    witness = Scripted(*answers)
    for _ in since:
        assert len(ledger.seal(witnesses=[witness]).cosignatures) == 1
    row = ledger.store.checkpoint()
    assert row is not None
    found = [parse_signature(line.decode()[:-1]).signature[:8] for line in row.cosignatures]
    assert sorted(int.from_bytes(each, "big") - start for each in found) == [0, 3600, 7200]


def test_of_a_checkpoint_900_lines_are_kept_and_the_first_of_a_witness() -> None:
    note = Note("log.example\n1\n" + "A" * 43 + "=\n", ())
    hours = [by(W1, 3600 * number)(note) for number in range(COSIGNATURES_MAX + 1)]
    full = CheckpointRow(1, b"", tuple(line.line.encode() for line in hours[:-1]))
    less = replace(full, cosignatures=full.cosignatures[:-1])
    assert takes(less, hours[-2])
    assert not takes(full, hours[-1])
    assert takes(full, by(W2)(note))


def test_lines_without_end_beside_a_checkpoint_are_no_tampering(home: Home, ledger: Ledger) -> None:
    note = ledger.seal().checkpoint.note
    for number in range(1_001):
        line = by(W1, number)(note).line
        ledger.store.add_to_checkpoint(4, "cosignature", line.encode())
    home.require_intact()


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


def test_a_note_takes_no_more_bytes_than_a_reader_does(ledger: Ledger) -> None:
    """64 lines of the longest names are more than a note holds: known ones go first, and it can be read."""
    note = ledger.seal().checkpoint.note
    names = [f"{number:02}" + "\U00010348" * 253 for number in range(70)]
    lines = [by(name)(note).line.encode() for name in (*names, W1)]
    whole = with_cosignatures(note.raw, lines, [witness_key(W2), witness_key(W1)]).note
    assert whole.signatures[1].name == W1
    assert 50 < len(whole.signatures) < 64
    assert len(whole.raw) <= NOTE_BYTES_MAX
    assert SignedCheckpoint.parse(whole.raw).note == whole
