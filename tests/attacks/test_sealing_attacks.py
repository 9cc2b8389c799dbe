"""What the owner of the store, or two sealers at once, could have a log key sign: each is refused, and named.

Each attack has its untouched twin, which is sealed.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from causebook.adapters.ledger import Ledger
from causebook.adapters.store.port import TREE, Position
from causebook.domain.checkpoint import Checkpoint, SignedCheckpoint, cosign
from causebook.domain.errors import BadData, Busy, LogForked, SealRefused
from causebook.domain.events import TaskOpened
from causebook.domain.keyring import raw_key
from causebook.domain.note import Note, NoteKey, NoteSignature, sign_note
from causebook.projections.tree import Frontier, leaf_hash
from tests.adapters.ledgers import Home
from tests.adapters.logs import private_key, witness_key
from tests.adapters.test_sealing import replace_log_key
from tests.attacks.intruder import Intruder


@pytest.fixture
def home(store_url: str, tmp_path: Path) -> Home:
    """A ledger that was sealed at 7 of its 10 records."""
    home = Home.found(store_url, tmp_path)
    work(home, "a", 3)
    seal(home)
    work(home, "b", 3)
    return home


@pytest.fixture
def intruder(home: Home) -> Iterator[Intruder]:
    with Intruder(home.url) as intruder:
        yield intruder


def work(home: Home, name: str, count: int) -> None:
    with home.open() as ledger:
        batch = ledger.writer.batch()
        for number in range(count):
            task = f"{name}-{number}"
            batch.add(f"task/{task}", TaskOpened(task=task, spec=None))
        batch.commit()


def seal(home: Home) -> int:
    with home.open() as ledger:
        return ledger.seal().size


def sealed_sizes(home: Home) -> list[int]:
    """The sizes of the checkpoints, each of which has the root of its records."""
    frontier, roots = Frontier(), [b""]
    for row in home.rows():
        frontier.append(leaf_hash(row.record))
        roots.append(frontier.root())
    with home.store() as store:
        for row in store.checkpoints():
            assert SignedCheckpoint.parse(row.note).checkpoint.root == roots[row.size]
        return [row.size for row in store.checkpoints()]


TABLES = ("tree_tiles", "checkpoint_additions", "checkpoints", "projection_positions")


class OlderCopy:
    """All that the store holds, to be put back later: what whoever restores a backup does."""

    def __init__(self, intruder: Intruder) -> None:
        self._intruder = intruder
        ((self._last,),) = intruder.sql(f"SELECT max({intruder.row_id}) FROM stored_events")
        self._tables = {table: intruder.sql(f"SELECT * FROM {table}") for table in TABLES}

    def put_back(self) -> None:
        sql = self._intruder.sql
        sql(f"DELETE FROM stored_events WHERE {self._intruder.row_id} > ?", self._last)
        for table in reversed(TABLES):
            if table == "checkpoints":
                sql("DELETE FROM checkpoint_additions")
            sql(f"DELETE FROM {table}")
        for table in ("checkpoints", "checkpoint_additions", "tree_tiles", "projection_positions"):
            for row in self._tables[table]:
                sql(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", *row)


# ── restore an older copy and seal on ────────────────────────────────────────────────────────────────


def test_restore_an_older_copy_and_seal_on(home: Home, intruder: Intruder) -> None:
    copy = OlderCopy(intruder)
    work(home, "c", 1)
    assert seal(home) == 11
    copy.put_back()
    assert sealed_sizes(home) == [7]
    with pytest.raises(
        SealRefused, match="expected 11 records or more, as it was sealed, found 10"
    ):
        seal(home)
    assert sealed_sizes(home) == [7]


def test_restore_an_older_copy_write_on_and_seal_on(home: Home, intruder: Intruder) -> None:
    work(home, "c", 5)
    copy = OlderCopy(intruder)
    work(home, "d", 5)
    assert seal(home) == 20
    copy.put_back()
    work(home, "e", 2)
    with pytest.raises(SealRefused, match="expected 20 records or more") as refused:
        seal(home)
    assert refused.value.exit_code == 26
    work(home, "f", 30)
    with pytest.raises(LogForked, match="size 20: expected root") as forked:
        seal(home)
    assert forked.value.exit_code == 27
    assert sealed_sizes(home) == [7]


def test_the_twin_whose_copy_was_taken_after_the_last_seal_is_sealed_on(
    home: Home, intruder: Intruder
) -> None:
    """Nothing that was sealed is lost: what came after it was never promised to anybody."""
    seal(home)
    copy = OlderCopy(intruder)
    work(home, "d", 5)
    copy.put_back()
    work(home, "e", 2)
    assert seal(home) == 12
    assert sealed_sizes(home) == [7, 10, 12]


@pytest.mark.parametrize("tables", ["records", "records and checkpoints", "everything"])
def test_cut_the_sealed_tail_and_seal_on(home: Home, intruder: Intruder, tables: str) -> None:
    seal(home)
    for row in home.rows()[-2:]:
        intruder.delete(row.stream, row.version)
    if tables != "records":
        intruder.sql("DELETE FROM checkpoints WHERE size > 7")
    if tables == "everything":
        intruder.sql("DELETE FROM tree_tiles")
        intruder.sql("DELETE FROM projection_positions")
    for _ in range(2):
        with pytest.raises(
            SealRefused, match="expected 10 records or more, as it was sealed, found 8"
        ):
            seal(home)
    work(home, "c", 9)
    with pytest.raises(LogForked):
        seal(home)


def test_a_sealed_record_replaced_by_another_of_the_same_key(
    home: Home, intruder: Intruder
) -> None:
    """By a thief of the engine's key, say: its signature holds, and the root does not."""
    seal(home)
    rows = home.rows()
    for row in rows[-3:]:
        intruder.delete(row.stream, row.version)
    with home.open() as ledger:
        batch = ledger.writer.batch()
        for row in rows[-3:]:
            batch.add(row.stream, TaskOpened(task=row.stream.removeprefix("task/"), spec=None))
        batch.commit()
    assert [row.stream for row in home.rows()] == [row.stream for row in rows]
    with pytest.raises(LogForked, match="size 10"):
        seal(home)


# ── UNIQUE(size) ─────────────────────────────────────────────────────────────────────────────────────


def second_note(ledger: Ledger) -> bytes:
    """A note over 10 records of another root, by the log's own key."""
    signer = ledger.writer.signer("log")
    key = NoteKey(ledger.origin, raw_key(signer.public_key))
    return sign_note(f"{ledger.origin}\n10\n{'A' * 43}=\n", key, signer.sign).raw


def test_two_notes_of_one_size_with_the_log_key_itself(home: Home) -> None:
    """Even where the key signs by hand: the store keeps the first, in one transaction with its tree."""
    with home.open() as ledger:
        first = ledger.seal().checkpoint
        position = ledger.store.position(TREE)
        assert position is not None
        with pytest.raises(Busy, match="another checkpoint of as many or of more"):
            ledger.store.seal([], was=position, now=position, checkpoint=(10, second_note(ledger)))
        row = ledger.store.checkpoint(10)
        assert row is not None
        assert row.note == first.note.raw


def test_a_second_note_put_into_the_store_by_hand_stops_the_sealer(
    home: Home, intruder: Intruder
) -> None:
    with home.open() as ledger:
        sealed = ledger.seal().checkpoint
        intruder.sql("UPDATE checkpoints SET note = ? WHERE size = 10", second_note(ledger))
        with pytest.raises(LogForked, match=r"size 10: expected root 0{64}"):
            ledger.seal()
        intruder.sql("UPDATE checkpoints SET note = ? WHERE size = 10", sealed.note.raw)
        assert ledger.seal().size == 10  # the twin


# ── two sealers at once ──────────────────────────────────────────────────────────────────────────────


def _seal_often(url: str, keys: str, name: str, told: Any) -> None:
    try:
        with Ledger.open(url, keys=keys) as ledger:
            for number in range(10):
                batch = ledger.writer.batch()
                task = f"{name}-{number}"
                batch.add(f"task/{task}", TaskOpened(task=task, spec=None))
                batch.commit()
                ledger.seal(wait_seconds=60)
        told.put("")
    except Exception as error:  # noqa: BLE001 - told to the test's own process
        told.put(f"{type(error).__name__}: {error}")


def test_a_checkpoint_planted_by_a_retired_log_keys_thief(home: Home, intruder: Intruder) -> None:
    """Over the true records: taken up as one's own, it would bind the log to a key that had ended."""
    thief = Ed25519PrivateKey.from_private_bytes(_secret(home))
    replace_log_key(home, 7)
    remembered = _memory(home).read_bytes()
    planted = _checkpoint(home)
    key = NoteKey(planted.origin, thief.public_key().public_bytes_raw())
    note = sign_note(planted.text, key, thief.sign)
    intruder.sql("INSERT INTO checkpoints (size, note) VALUES (?, ?)", planted.size, note.raw)
    with pytest.raises(BadData, match="signed by a log key that is trusted that far"):
        seal(home)
    assert _memory(home).read_bytes() == remembered
    intruder.sql("DELETE FROM checkpoints WHERE size = ?", planted.size)
    assert seal(home) == planted.size  # the twin: the owner's own key over the same records
    assert sealed_sizes(home) == [7, planted.size]


def _secret(home: Home) -> bytes:
    key = load_pem_private_key((home.keys / "log.pem").read_bytes(), None)
    assert isinstance(key, Ed25519PrivateKey)
    return key.private_bytes_raw()


def _memory(home: Home) -> Path:
    (file,) = home.keys.glob("*.sealed")
    return file


def _checkpoint(home: Home) -> Checkpoint:
    """What an honest sealer would say of the records that are there."""
    frontier = Frontier()
    for row in home.rows():
        frontier.append(leaf_hash(row.record))
    return Checkpoint("audit.example.com/team", frontier.size, frontier.root())


def test_two_sealers_at_once(home: Home) -> None:
    """Two processes with the same key, which race for each size."""
    context = multiprocessing.get_context("spawn")
    told: Any = context.Queue()
    processes = [
        context.Process(target=_seal_often, args=(home.url, str(home.keys), name, told))
        for name in ("x", "y")
    ]
    for process in processes:
        process.start()
    assert [told.get(timeout=120) for _ in processes] == ["", ""]
    for process in processes:
        process.join()
    sizes = sealed_sizes(home)
    assert sizes == sorted(set(sizes))
    assert sizes[-1] == 30


def test_a_sealer_whose_lock_was_lost_writes_over_nobody(home: Home) -> None:
    """The lock keeps sealers apart; where it fails, the position and the size do, in the transaction."""
    with home.open() as ledger:
        was = ledger.store.position(TREE)
        assert was is not None
        ledger.seal()
        now = Position(was.version, was.row_id + 1, "ab" * 32)
        with pytest.raises(Busy, match="the tree: expected position"):
            ledger.store.seal([], was=was, now=now, checkpoint=(11, b"late"))
    assert sealed_sizes(home) == [7, 10]


# ── a store that changes while it is read ────────────────────────────────────────────────────────────


class Meddler:
    """Runs with the sealer: once what was sealed before is checked, and before the next root is signed."""

    url, key = "https://w.example", witness_key("w.example")

    def __init__(self, act: Callable[[], object]) -> None:
        self._act = act

    def newest(self, origin: str) -> SignedCheckpoint | None:
        self._act()
        return None

    def add_checkpoint(
        self, old_size: int, path: Sequence[bytes], note: Note
    ) -> Sequence[NoteSignature]:
        return [cosign(note.text, self.key, 1_800_000_000, private_key("w.example").sign)]


def test_a_tree_changed_between_its_check_and_its_signature(home: Home, intruder: Intruder) -> None:
    """What was checked is what is signed: the root is proved to extend the last, over its own hashes."""
    work(home, "c", 300)
    assert seal(home) == 310
    work(home, "d", 3)

    def change() -> None:
        intruder.sql("UPDATE tree_tiles SET hashes = ? WHERE level = 1", bytes(32))

    with home.open() as ledger:
        with pytest.raises(BadData, match="size 313: expected it to extend the one of size 310"):
            ledger.seal(witnesses=[Meddler(change)])
        assert SignedCheckpoint.parse(ledger.sealer.memory.path.read_bytes()).checkpoint.size == 310
    assert sealed_sizes(home) == [7, 310]
    with home.open() as ledger:  # the twin
        assert ledger.seal(witnesses=[Meddler(lambda: None)]).size == 313
    assert sealed_sizes(home) == [7, 310, 313]


def test_the_twin_of_every_attack_is_sealed(home: Home, intruder: Intruder) -> None:
    OlderCopy(intruder).put_back()
    assert seal(home) == 10
    assert sealed_sizes(home) == [7, 10]
