"""Sealing: one checkpoint extends the one before, whatever is done to the store, wherever it is cut short."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from causebook.adapters.kept_checkpoints import checkpoint_of
from causebook.adapters.key_life import ask_enrolment, ask_retirement, sign_here, submit
from causebook.adapters.keys import KeyFolder
from causebook.adapters.ledger import Ledger
from causebook.adapters.sealing import tree_writing
from causebook.adapters.sealing.memory import SealMemory
from causebook.adapters.sealing.seal import NoLogKey, Sealed, Sealer
from causebook.adapters.sealing.tree_writing import rebuild
from causebook.adapters.signatures import verify
from causebook.adapters.store.port import TREE, CheckpointRow, Row
from causebook.domain.checkpoint import SignedCheckpoint
from causebook.domain.errors import (
    BadData,
    Busy,
    Denied,
    IOFailure,
    LogForked,
    NoInput,
    SealRefused,
)
from causebook.domain.events import TaskOpened
from causebook.domain.keyring import raw_key
from causebook.domain.note import NoteKey, is_signed_by
from causebook.projections.tree import Frontier, leaf_hash
from tests.adapters.ledgers import Home
from tests.attacks.intruder import Intruder


@pytest.fixture
def home(store_url: str, tmp_path: Path) -> Home:
    return Home.found(store_url, tmp_path)


@pytest.fixture
def ledger(home: Home) -> Iterator[Ledger]:
    with home.open() as opened:
        yield opened


def add_records(ledger: Ledger, count: int, name: str = "t") -> None:
    """Open that many tasks, in one transaction: a record each."""
    batch = ledger.writer.batch()
    for number in range(count):
        task = f"{name}-{number}"
        batch.add(f"task/{task}", TaskOpened(task=task, spec=None))
    batch.commit()


def roots(home: Home) -> list[bytes]:
    """The root of each size from 0, made of the records one by one."""
    frontier, made = Frontier(), [b""]
    for row in home.rows():
        frontier.append(leaf_hash(row.record))
        made.append(frontier.root())
    return made


def require_extending(home: Home) -> list[int]:
    """The sizes of the stored checkpoints: each is the log key's, and has the root of its first records."""
    made = roots(home)
    with home.open() as opened:
        key = NoteKey(opened.origin, raw_key(opened.writer.signer("log").public_key))
        rows = opened.store.checkpoints()
    for row in rows:
        signed = SignedCheckpoint.parse(row.note)
        assert is_signed_by(signed.note, key, verify)
        assert signed.checkpoint.origin == "audit.example.com/team"
        assert (signed.checkpoint.size, signed.checkpoint.root) == (row.size, made[row.size])
    return [row.size for row in rows]


def paged(ledger: Ledger, page_records: int) -> Sealer:
    """The ledger's sealer, with pages of that many records."""
    return replace(ledger.sealer, page_records=page_records)


def memory_of(ledger: Ledger) -> Path:
    return ledger.sealer.memory.path


# ── what is sealed ───────────────────────────────────────────────────────────────────────────────────


def test_the_first_seal_is_over_the_founding(home: Home, ledger: Ledger) -> None:
    sealed = ledger.seal()
    assert (sealed.size, sealed.new) == (4, 4)
    assert require_extending(home) == [4]
    assert memory_of(ledger).read_bytes() == sealed.checkpoint.note.raw
    assert stat.S_IMODE(memory_of(ledger).stat().st_mode) == 0o600
    assert memory_of(ledger).parent == home.keys


def test_nothing_new_is_answered_with_the_newest_and_signed_by_nobody(
    home: Home, ledger: Ledger
) -> None:
    first = ledger.seal()
    before = memory_of(ledger).stat().st_ino
    again = ledger.seal()
    assert again == Sealed(first.checkpoint, 0)
    assert memory_of(ledger).stat().st_ino == before
    assert require_extending(home) == [4]


@pytest.mark.parametrize("page", [256, 512])
def test_a_log_is_sealed_bit_by_bit_across_tiles_and_pages(
    home: Home, ledger: Ledger, page: int
) -> None:
    sealer = paged(ledger, page)
    sizes: list[int] = []
    for count in (1, 250, 1, 1, 256, 700, 3):
        add_records(ledger, count, f"t{len(sizes)}")
        sizes.append(sealer.seal().size)
    assert sizes == [5, 255, 256, 257, 513, 1213, 1216]
    assert require_extending(home) == sizes
    assert rebuild(ledger.store).differences == []


def test_what_was_never_sealed_is_sealed_at_once(home: Home, ledger: Ledger) -> None:
    add_records(ledger, tree_writing.PAGE_RECORDS + 700)
    assert ledger.seal().new == tree_writing.PAGE_RECORDS + 704
    assert require_extending(home) == [tree_writing.PAGE_RECORDS + 704]


def test_row_ids_lead_from_an_index_to_its_record(home: Home, ledger: Ledger) -> None:
    add_records(ledger, 300)
    ledger.seal()
    ids = [row_id for row_id, _ in ledger.store.rows(limit=1000)]
    assert [tree_writing.row_id_at(ledger.store, n) for n in range(304)] == ids
    assert tree_writing.row_id_at(ledger.store, 304) is None


def test_one_folder_of_keys_serves_several_logs(home: Home, ledger: Ledger, tmp_path: Path) -> None:
    other = f"sqlite:///{tmp_path / 'other.db'}"
    Ledger.found(other, keys=home.keys, origin="audit.example.com/other").close()
    with Ledger.open(other, keys=home.keys) as second:
        ledger.seal()
        second.seal()
        add_records(ledger, 1)
        assert (ledger.seal().size, second.seal().size) == (5, 4)
        assert memory_of(ledger) != memory_of(second)


# ── the memory, and the store behind it ──────────────────────────────────────────────────────────────


def test_a_missing_memory_is_refused_and_taken_up_when_told_to(home: Home, ledger: Ledger) -> None:
    first = ledger.seal()
    memory_of(ledger).unlink()
    add_records(ledger, 2)
    with pytest.raises(Denied, match="expected what was sealed last, and it is not here"):
        ledger.seal()
    assert require_extending(home) == [first.size]
    assert ledger.seal(adopt=True).new == 2
    assert require_extending(home) == [4, 6]


def test_a_store_that_does_not_hold_its_checkpoint_is_not_taken_up(
    home: Home, ledger: Ledger, store_url: str
) -> None:
    add_records(ledger, 2)
    ledger.seal()
    memory_of(ledger).unlink()
    with Intruder(store_url) as intruder:
        intruder.exchange_rows("ledger", 3, 4)
    with pytest.raises(LogForked, match="size 6: expected root"):
        ledger.seal(adopt=True)
    assert not memory_of(ledger).exists()


@pytest.mark.parametrize(
    "content", [b"", b"nonsense", b"causebook.example/other\n1\n" + b"A" * 43 + b"=\n\n"]
)
def test_a_memory_that_is_none_is_refused(ledger: Ledger, content: bytes) -> None:
    ledger.seal()
    memory_of(ledger).write_bytes(content)
    with pytest.raises(BadData, match="expected the checkpoint sealed last"):
        ledger.seal(adopt=True)


def test_a_memory_with_a_changed_root_is_refused(ledger: Ledger) -> None:
    sealed = ledger.seal()
    said = replace(sealed.checkpoint.checkpoint, root=bytes(32))
    note = replace(sealed.checkpoint.note, text=said.text)
    memory_of(ledger).write_bytes(note.raw)
    with pytest.raises(BadData, match="signed by a log key"):
        ledger.seal()


def test_two_hosts_with_a_copy_of_the_key_seal_one_after_the_other(
    home: Home, ledger: Ledger, tmp_path: Path
) -> None:
    ledger.seal()
    elsewhere = tmp_path / "elsewhere"
    shutil.copytree(home.keys, elsewhere)
    with Ledger.open(home.url, keys=elsewhere) as second:
        for number in range(3):
            add_records(ledger, 3, f"a{number}")
            ledger.seal()
            add_records(second, 300, f"b{number}")
            second.seal()
        assert ledger.seal().new == 0
        assert memory_of(ledger).read_bytes() == memory_of(second).read_bytes()
    assert require_extending(home) == [4, 7, 307, 310, 610, 613, 913]


def test_a_checkpoint_in_the_store_that_no_log_key_signed_is_refused(
    ledger: Ledger, store_url: str
) -> None:
    note = ledger.seal().checkpoint.note
    text = note.text.replace("\n4\n", "\n9\n")
    with Intruder(store_url) as intruder:
        intruder.sql("INSERT INTO checkpoints VALUES (9, ?)", replace(note, text=text).raw)
    with pytest.raises(BadData, match="checkpoint of size 9 in the store"):
        ledger.seal()


# ── the tree in the store is a projection ────────────────────────────────────────────────────────────

DAMAGE = {
    "every hash changed": "UPDATE tree_tiles SET hashes = ?",
    "a tile emptied": "UPDATE tree_tiles SET hashes = substr(?, 1, 0) WHERE level = 0 AND number = 1",
    "row ids changed": "UPDATE tree_tiles SET row_ids = ? WHERE level = 0",
    "tiles gone": "DELETE FROM tree_tiles WHERE length(?) > 0",
    "the position gone": "DELETE FROM projection_positions WHERE projection = 'tree' AND length(?) > 0",
    "another version": "UPDATE projection_positions SET version = length(?) WHERE projection = 'tree'",
    "a position ahead": "UPDATE projection_positions SET row_id = 400 + length(?) WHERE projection = 'tree'",
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_tree_is_made_anew_and_sealed_on(
    damage: str, home: Home, ledger: Ledger, store_url: str
) -> None:
    add_records(ledger, 300)
    ledger.seal()
    with Intruder(store_url) as intruder:
        intruder.sql(DAMAGE[damage], bytes(256 * 8))
    add_records(ledger, 300, "u")
    assert ledger.seal().new == 300
    assert require_extending(home) == [304, 604]
    assert rebuild(ledger.store).differences == []


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_rebuild_names_the_damage_and_comes_to_the_same_root(
    damage: str, home: Home, ledger: Ledger, store_url: str
) -> None:
    add_records(ledger, 300)
    ledger.seal()
    clean = rebuild(ledger.store)
    assert (clean.size, clean.root, clean.differences) == (304, roots(home)[-1], [])
    with Intruder(store_url) as intruder:
        intruder.sql(DAMAGE[damage], bytes(256 * 8))
    damaged = rebuild(ledger.store)
    assert (damaged.size, damaged.root) == (clean.size, clean.root)
    # A tree that another version made has nothing to be compared with.
    assert bool(damaged.differences) == (damage != "another version")
    assert rebuild(ledger.store) == clean


def test_a_tree_that_is_ahead_of_the_memory_is_not_relied_on(
    home: Home, ledger: Ledger, store_url: str
) -> None:
    """Tiles of records that were never sealed are grown anew: a wrong one is never signed over."""
    ledger.seal()
    add_records(ledger, 200)
    rebuild(ledger.store)
    with Intruder(store_url) as intruder:
        ((hashes,),) = intruder.sql("SELECT hashes FROM tree_tiles WHERE level = 0")
        changed = bytearray(hashes)
        changed[-40] ^= 1
        intruder.sql("UPDATE tree_tiles SET hashes = ?", bytes(changed))
    ledger.seal()
    assert require_extending(home) == [4, 204]


# ── records that do not hold are not sealed over ─────────────────────────────────────────────────────


def unsealable(home: Home, row: Callable[[Row], Row], store_url: str) -> str:
    """The refusal to seal where the last record is another; nothing is signed then."""
    with home.open() as ledger:
        before = ledger.seal()
        add_records(ledger, 1, "new")
        last = home.rows()[-1]
        changed = row(last)
        with Intruder(store_url) as intruder:
            intruder.delete(last.stream, last.version)
            intruder.insert(changed)
        with pytest.raises(BadData) as refused:
            ledger.seal()
        assert ledger.store.checkpoints() == [
            CheckpointRow(before.size, before.checkpoint.note.raw)
        ]
        assert memory_of(ledger).read_bytes() == before.checkpoint.note.raw
    return refused.value.message


def _with_signature(row: Row, change: Callable[[bytes], bytes]) -> Row:
    line, signed, _ = row.record.split(b"\n")
    return row._replace(record=line + b"\n" + change(signed) + b"\n")


UNSEALABLE: dict[str, tuple[Callable[[Row], Row], str]] = {
    "a changed byte": (
        lambda row: row._replace(record=row.record.replace(b"new-0", b"new-1", 1)),
        "expected the record of this place|the signature does not hold",
    ),
    "another's signature": (
        lambda row: _with_signature(row, lambda signed: signed[:65] + b"A" * 86 + b"=="),
        "the signature does not hold",
    ),
    "an unknown key": (
        lambda row: _with_signature(row, lambda signed: b"0" * 64 + signed[64:]),
        "expected it signed by a key enrolled as engine",
    ),
    "another stream": (lambda row: row._replace(stream="task/x"), "the record of this place"),
    "another label": (lambda row: row._replace(type="TaskCompleted"), "the record of this place"),
    "no record": (lambda row: row._replace(record=b"{}\n\n"), "expected a record"),
    "no stream": (lambda row: row._replace(stream="elsewhere"), "expected the name of a stream"),
}


@pytest.mark.parametrize("defect", UNSEALABLE)
def test_nothing_is_sealed_over(defect: str, home: Home, store_url: str) -> None:
    change, expected = UNSEALABLE[defect]
    message = unsealable(home, change, store_url)
    assert re.search(expected, message), message
    assert "nothing is sealed over it" in message


def test_the_twin_is_sealed_over(home: Home, ledger: Ledger, store_url: str) -> None:
    ledger.seal()
    add_records(ledger, 1, "new")
    last = home.rows()[-1]
    with Intruder(store_url) as intruder:
        intruder.delete(last.stream, last.version)
        intruder.insert(last)
    assert ledger.seal().new == 1


# ── the key ──────────────────────────────────────────────────────────────────────────────────────────


def test_a_log_key_that_is_not_at_hand_seals_nothing(home: Home) -> None:
    KeyFolder(home.keys).file_of("log").unlink()
    with home.open() as ledger:
        with pytest.raises(Denied, match="log"):
            ledger.seal()
        assert ledger.store.checkpoints() == []


def test_a_log_key_that_nobody_enrolled_seals_nothing(home: Home, tmp_path: Path) -> None:
    Ledger.found(f"sqlite:///{tmp_path / 'o.db'}", keys=tmp_path / "other").close()
    shutil.copy(tmp_path / "other" / "log.pem", home.keys / "log.pem")
    with home.open() as ledger:
        with pytest.raises(Denied):
            ledger.seal()
        assert ledger.store.checkpoints() == []


class Meanwhile:
    """A store in which something happens once, before a page of records is read or after it."""

    def __init__(self, store: Any, act: Callable[[], None], *, before: bool) -> None:
        self._store, self._act, self._before = store, act, before
        self._done = False

    def rows(self, **which: int) -> Any:
        if self._before:
            self._once(which)
        found = self._store.rows(**which)
        self._once(which)
        return found

    def _once(self, which: dict[str, int]) -> None:
        if not self._done and which["limit"] > 1:
            self._done = True
            self._act()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def replace_log_key(home: Home, size: int) -> None:
    """Enrol another log key, and end the one before at a checkpoint."""
    folder = KeyFolder(home.keys)
    with home.open() as other:
        old = other.writer.keyring.active("log")[0]
        new, _ = folder.add("log", None, beside=True)
        request = ask_enrolment(other.writer, "log", "log", new.public_key)
        submit(other.writer, sign_here(request, folder)[0])
        end = checkpoint_of(other.store, other.origin, size)
        request = ask_retirement(other.writer, old, end, compromised=False, reason="replaced")
        submit(other.writer, sign_here(request, folder)[0])


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
def test_a_log_key_that_is_retired_while_records_are_read_signs_nothing(
    home: Home, ledger: Ledger, before: bool
) -> None:
    """Signed by it, or by the one enrolled after the records were read, the checkpoint would never hold."""
    ledger.seal()
    add_records(ledger, 1)
    store = ledger.writer.store
    ledger.writer.store = Meanwhile(store, lambda: replace_log_key(home, 4), before=before)
    with pytest.raises(NoLogKey, match="it is retired"):
        ledger.seal()
    ledger.writer.store = store
    assert [row.size for row in store.checkpoints()] == [4]
    assert SignedCheckpoint.parse(memory_of(ledger).read_bytes()).checkpoint.size == 4
    assert ledger.seal().size == 7
    home.require_intact()


# ── cut short at any step ────────────────────────────────────────────────────────────────────────────


class Forgetful(SealMemory):
    """A memory on a full disk."""

    def write(self, signed: SignedCheckpoint) -> None:
        raise IOFailure(f"{self.path}: disk full")


def test_what_cannot_be_remembered_is_not_given_out(home: Home, ledger: Ledger) -> None:
    memory = ledger.sealer.memory
    with pytest.raises(IOFailure, match="disk full"):
        Sealer(ledger.writer, Forgetful(memory.path, memory.origin)).seal()
    assert ledger.store.checkpoints() == []
    assert not memory.path.exists()
    assert ledger.seal().size == 4
    assert require_extending(home) == [4]


class Failing:
    """A store that fails where a checkpoint is to go in."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def seal(self, tiles: Any, *, checkpoint: Any = None, **positions: Any) -> None:
        if checkpoint is not None:
            raise IOFailure("disk full")
        self._store.seal(tiles, checkpoint=checkpoint, **positions)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


@pytest.mark.parametrize("since", [0, 2, 600])
def test_what_was_remembered_and_not_stored_is_stored_by_the_next_seal(
    home: Home, ledger: Ledger, since: int
) -> None:
    add_records(ledger, 300, "before")
    store = ledger.writer.store
    ledger.writer.store = Failing(store)
    with pytest.raises(IOFailure, match="disk full"):
        paged(ledger, 256).seal()
    ledger.writer.store = store
    remembered = memory_of(ledger).read_bytes()
    assert store.checkpoints() == []
    add_records(ledger, since, "after")
    assert paged(ledger, 256).seal().size == 304 + since
    assert store.checkpoint(304) == CheckpointRow(304, remembered)
    assert require_extending(home) == sorted({304, 304 + since})


KILLED = """
import os, signal, sys
from causebook.adapters.ledger import Ledger
from causebook.adapters.sealing.memory import SealMemory
from causebook.adapters.sealing.seal import Sealer

url, keys, step = sys.argv[1:]

def die():
    os.kill(os.getpid(), signal.SIGKILL)

class Memory(SealMemory):
    def write(self, signed):
        if step == "before it is remembered":
            die()
        super().write(signed)

class Store:
    def __init__(self, store):
        self._store = store
    def seal(self, tiles, *, checkpoint=None, **positions):
        if checkpoint is not None and step == "before it is stored":
            die()
        self._store.seal(tiles, checkpoint=checkpoint, **positions)
        if checkpoint is not None and step == "after it is stored":
            die()
    def __getattr__(self, name):
        return getattr(self._store, name)

ledger = Ledger.open(url, keys=keys)
memory = ledger.sealer.memory
ledger.writer.store = Store(ledger.store)
Sealer(ledger.writer, Memory(memory.path, memory.origin)).seal()
"""


@pytest.mark.parametrize(
    ("step", "stored"),
    [
        ("before it is remembered", [4]),
        ("before it is stored", [4]),
        ("after it is stored", [4, 304]),
    ],
)
def test_a_sealer_that_is_killed(step: str, stored: list[int], home: Home, ledger: Ledger) -> None:
    ledger.seal()
    add_records(ledger, 300)
    command = [sys.executable, "-c", KILLED, home.url, str(home.keys), step]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert require_extending(home) == stored
    assert ledger.seal(wait_seconds=10).size == 304
    assert require_extending(home) == [4, 304]
    assert sorted(p.name for p in home.keys.iterdir() if p.name.startswith("log-")) == [
        memory_of(ledger).name
    ]


# ── two at once ──────────────────────────────────────────────────────────────────────────────────────


def test_a_second_sealer_waits_or_is_told_in_one_line(home: Home, ledger: Ledger) -> None:
    with home.open() as other, other.store.projector(TREE):
        with pytest.raises(Busy, match="another process seals this ledger") as told:
            ledger.seal(wait_seconds=0)
        assert "\n" not in told.value.message
        waiting = threading.Thread(target=lambda: ledger.seal(wait_seconds=30))
        waiting.start()
    waiting.join()
    assert require_extending(home) == [4]


def test_many_sealers_at_once_never_sign_two_notes_of_one_size(home: Home) -> None:
    failures: list[BaseException] = []

    def work(name: str) -> None:
        try:
            with home.open() as own:
                for number in range(5):
                    add_records(own, 7, f"{name}-{number}")
                    own.seal(wait_seconds=60)
        except BaseException as error:  # noqa: BLE001 - looked at by the test's own thread
            failures.append(error)

    threads = [threading.Thread(target=work, args=(f"w{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    sizes = require_extending(home)
    assert sizes == sorted(set(sizes))
    assert sizes[-1] == 4 + 4 * 5 * 7


def test_sealing_on_an_empty_ledger_is_no_input(store_url: str, tmp_path: Path) -> None:
    from causebook.adapters.store.url import found

    with contextlib.closing(found(store_url)), pytest.raises(NoInput):
        Ledger.open(store_url, keys=tmp_path / "keys")


# ── what contradicts it ──────────────────────────────────────────────────────────────────────────────


def test_checking_before_judging_signs_nothing(home: Home, ledger: Ledger, store_url: str) -> None:
    ledger.sealer.check()
    assert ledger.store.checkpoints() == []
    assert not memory_of(ledger).exists()
    add_records(ledger, 3)
    ledger.seal()
    add_records(ledger, 3, "u")
    ledger.sealer.check()
    assert require_extending(home) == [7]
    with Intruder(store_url) as intruder:
        for row in home.rows()[-5:]:
            intruder.delete(row.stream, row.version)
    with pytest.raises(SealRefused, match="the store was rolled back"):
        ledger.sealer.check()


def test_another_history_of_the_same_length_is_forked(
    home: Home, ledger: Ledger, store_url: str
) -> None:
    add_records(ledger, 3)
    ledger.seal()
    with Intruder(store_url) as intruder:
        for row in home.rows()[-3:]:
            intruder.delete(row.stream, row.version)
    add_records(ledger, 9, "other")
    with pytest.raises(LogForked, match=r"size 7: expected root [0-9a-f]{64}, as it was sealed"):
        ledger.seal()
    assert os.listdir(home.keys).count(memory_of(ledger).name) == 1
