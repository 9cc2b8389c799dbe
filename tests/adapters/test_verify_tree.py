"""The check `tree`: what was sealed against the rows, and the stored tiles against both."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from causebook.adapters.findings import (
    DIFFERS,
    FIRST_LOOK,
    TAMPERED,
    TRUNCATED,
    Finding,
    Report,
)
from causebook.adapters.store.port import CheckpointRow, Position, Row, TileRow
from causebook.adapters.verification.tree import LogTree
from causebook.adapters.verification.verify import verify
from causebook.domain.checkpoint import Checkpoint, SignedCheckpoint
from causebook.domain.note import NoteKey, sign_note
from causebook.domain.record import digest
from causebook.projections.tree import verify_consistency
from tests.adapters.forge import (
    Forge,
    Key,
    MemorySource,
    long_ledger,
    reads,
    small_ledger,
    tiles_of,
    tree_root,
    verdict,
)

# ── the tree of a pass ───────────────────────────────────────────────────────────────────────────────


def rows_of(count: int) -> list[tuple[int, Row]]:
    """Rows whose ids leave gaps, as PostgreSQL's do."""
    return [(3 * n + 1, Row("s", n + 1, "t", b"record %d" % n)) for n in range(count)]


class Rows:
    """The reading side of a store that holds rows alone."""

    def __init__(self, numbered: list[tuple[int, Row]]) -> None:
        self.numbered = numbered

    def rows(self, after: int = 0) -> Iterator[tuple[int, Row]]:
        return iter([pair for pair in self.numbered if pair[0] > after])


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 700), st.integers(1, 97), st.lists(st.integers(0, 720), max_size=6))
def test_its_roots_are_those_of_the_rows_however_they_come_in(
    count: int, step: int, wanted: list[int]
) -> None:
    numbered = rows_of(count)
    tree = LogTree(wanted)
    for first in range(0, count, step):
        tree.take(numbered[first : first + step])
    records = [row.record for _, row in numbered]
    assert tree.size == count
    assert tree.root() == tree_root(records)
    reached = {size for size in wanted if 0 < size <= count}
    assert tree.roots == {size: tree_root(records[:size]) for size in reached}


@pytest.mark.parametrize("count", [1, 255, 256, 257, 700])
def test_its_proofs_hold_at_every_size(count: int) -> None:
    numbered = rows_of(count)
    tree = LogTree()
    tree.take(numbered)
    records = [row.record for _, row in numbered]
    reader = tree.reader(Rows(numbered))
    sizes = [size for size in (1, 2, 7, 128, 255, 256, 257, 512, 513, count) if size <= count]
    for old in sizes:
        assert reader.root(old) == tree_root(records[:old])
        for new in (size for size in sizes if size >= old):
            path = reader.consistency(old, new)
            verify_consistency(old, new, path, tree_root(records[:old]), tree_root(records[:new]))


# ── checkpoints ──────────────────────────────────────────────────────────────────────────────────────


def sealed() -> Forge:
    """A ledger sealed twice: after its first records, and whole."""
    forge = Forge().found()
    forge.enrol("log")
    forge.open_task("T-1")
    forge.seal()
    forge.panel("T-1", {"a": [reads("a.py"), verdict("pass")]})
    forge.seal()
    return forge


def only(report: Report) -> Finding:
    """The one finding of the check `tree`, which alone failed."""
    failed = {check.name for check in report.checks if check.status == "FAIL"}
    assert failed == {"tree"}, report.findings
    (finding,) = report["tree"].findings
    return finding


def test_nothing_sealed_is_not_checked() -> None:
    report = verify(small_ledger().source())
    check = report["tree"]
    assert (check.status, check.note) == ("NOT CHECKED", "nothing is sealed: causebook seal")
    assert report.sealed is None


def test_a_sealed_ledger_passes() -> None:
    forge = small_ledger()
    forge.seal()
    report = verify(forge.source())
    assert (report.code, report["tree"].status, report["tree"].note) == (
        FIRST_LOOK,
        "PASS",
        "sealed to 70",
    )
    assert report.sealed == 70


def test_records_past_the_newest_checkpoint_are_counted() -> None:
    forge = small_ledger()
    forge.seal()
    forge.open_task("T-2")
    report = verify(forge.source())
    assert report["tree"].note == "sealed to 70, 2 records lie past it"
    assert (report.sealed, report.records) == (70, 72)
    forge.seal(71)
    assert verify(forge.source())["tree"].note == "sealed to 71, 1 record lies past it"


def signed(forge: Forge, size: int, root: bytes, *, key: Key, origin: str = "") -> CheckpointRow:
    """A stored checkpoint that says this, signed."""
    origin = origin or forge.origin
    note = sign_note(Checkpoint(origin, size, root).text, NoteKey(origin, key.public), key.sign)
    return CheckpointRow(size, note.raw)


def with_checkpoint(make: Callable[[Forge, bytes], CheckpointRow]) -> Report:
    """A look at a ledger sealed at 70 and 71, where one of them is replaced by what `make` makes."""
    forge = small_ledger()
    forge.enrol("log")
    forge.enrol("engine")
    forge.seal(70)
    forge.seal()
    source = forge.source()
    root = tree_root([row.record for row in forge.rows])
    made = make(forge, root)
    source.sealed = [row for row in source.sealed if row.size != made.size] + [made]
    return verify(source)


def test_its_twin_passes() -> None:
    report = with_checkpoint(lambda f, root: signed(f, 71, root, key=f.keys["log"]))
    assert (report.code, report["tree"].note) == (FIRST_LOOK, "sealed to 71")


def test_a_checkpoint_of_another_root() -> None:
    report = with_checkpoint(lambda f, root: signed(f, 71, bytes(32), key=f.keys["log"]))
    finding = only(report)
    assert (finding.place, finding.code) == ("checkpoint 71", TAMPERED)
    assert finding.expected == f"root {bytes(32).hex()}"
    assert report.sealed == 70


def test_a_checkpoint_of_more_records_than_there_are() -> None:
    report = with_checkpoint(lambda f, root: signed(f, 90, root, key=f.keys["log"]))
    finding = only(report)
    assert (finding.place, finding.expected, finding.found, finding.code) == (
        "checkpoint 90",
        "90 records or more",
        "71",
        TRUNCATED,
    )
    assert report.codes == [TRUNCATED]


@pytest.mark.parametrize("role", ["engine", "root", "authority"])
def test_a_checkpoint_by_a_key_of_another_role(role: str) -> None:
    report = with_checkpoint(lambda f, root: signed(f, 71, root, key=f.keys[role]))  # type: ignore[index]
    finding = only(report)
    assert (finding.found, finding.code) == ("none such", TAMPERED)


def test_a_checkpoint_by_a_key_that_nobody_enrolled() -> None:
    report = with_checkpoint(lambda f, root: signed(f, 71, root, key=Key("nobody")))
    assert only(report).code == TAMPERED


def test_a_checkpoint_of_another_log() -> None:
    """Under the log's own key and name, its text names another origin."""

    def make(forge: Forge, root: bytes) -> CheckpointRow:
        key = forge.keys["log"]
        text = Checkpoint("other.example", 71, root).text
        return CheckpointRow(71, sign_note(text, NoteKey(forge.origin, key.public), key.sign).raw)

    finding = only(with_checkpoint(make))
    assert (finding.found, finding.code) == ("other.example, size 71", TAMPERED)


def test_a_checkpoint_under_another_size() -> None:
    def make(forge: Forge, root: bytes) -> CheckpointRow:
        return replace(signed(forge, 71, root, key=forge.keys["log"]), size=70)

    finding = only(with_checkpoint(make))
    assert (finding.place, finding.found) == ("checkpoint 70", "audit.example.com/team, size 71")


@pytest.mark.parametrize(
    "spoil", [lambda raw: raw[:-5] + b"AAAA\n", lambda raw: raw + b"\n", lambda raw: b""]
)
def test_a_checkpoint_that_is_no_note_or_whose_signature_does_not_hold(
    spoil: Callable[[bytes], bytes],
) -> None:
    def make(forge: Forge, root: bytes) -> CheckpointRow:
        row = signed(forge, 71, root, key=forge.keys["log"])
        return replace(row, note=spoil(row.note))

    assert only(with_checkpoint(make)).code == TAMPERED


def test_of_many_that_fail_in_one_way_the_first_is_named() -> None:
    forge = small_ledger()
    forge.seal()
    forge.open_task("T-2")
    source = forge.source()
    source.sealed = [signed(forge, size, bytes(32), key=forge.keys["log"]) for size in (70, 71, 72)]
    report = verify(source)
    assert only(report).place == "checkpoint 70"
    assert (report["tree"].more, report["tree"].note) == (2, "and 2 checkpoints more after it")


def test_a_record_changed_after_it_was_sealed() -> None:
    """An insider signs it all anew; the checkpoint says what it was."""
    forge = sealed()
    forge.resign("task/T-1", 2, lambda said: said.update(at="2026-11-30T15:36:00.999999Z"))
    report = verify(forge.source())  # whose tiles are those of the new records
    finding = only(report)
    assert (finding.place, finding.code) == ("checkpoint 6", TAMPERED)


# ── the span of a log key ────────────────────────────────────────────────────────────────────────────


def test_a_checkpoint_by_a_log_key_that_was_enrolled_later() -> None:
    forge = small_ledger()
    forge.enrol("log")
    source = forge.source()
    for size, found in ((69, "a key that was enrolled later"), (70, "")):
        source.sealed = [CheckpointRow(size, forge.note(size).encode())]
        report = verify(source)
        if found:
            assert (only(report).found, only(report).code) == (found, TAMPERED)
        else:
            assert report["tree"].note.startswith("sealed to 70")


def rotated() -> tuple[Forge, Key, Key]:
    """A ledger whose log key was rotated and then retired as of size 70, by record 72."""
    forge = small_ledger()
    old = forge.enrol("log")
    forge.seal()
    new = forge.enrol("log")
    forge.retire(old, 70)
    forge.open_task("T-2")
    return forge, old, new


def test_a_retired_log_key_seals_what_came_before_its_end() -> None:
    forge, _, new = rotated()
    forge.seal(key=new)
    report = verify(forge.source())
    assert (report.code, report["tree"].note) == (FIRST_LOOK, "sealed to 74")


def test_a_checkpoint_by_a_log_key_after_its_end() -> None:
    forge, old, _ = rotated()
    forge.seal(key=old)
    finding = only(verify(forge.source()))
    assert (finding.place, finding.found, finding.code) == (
        "checkpoint 74",
        "a key that had ended",
        TAMPERED,
    )


def test_a_checkpoint_past_the_trust_in_its_key_seals_nothing_and_is_no_fault() -> None:
    forge, old, _ = rotated()
    forge.seal(71, key=old)
    report = verify(forge.source())
    assert (report.code, report.sealed) == (FIRST_LOOK, 70)
    assert report["tree"].note.startswith("sealed to 70, 4 records lie past it")
    assert "1 by a key that is not trusted so far" in report["tree"].note


def test_a_checkpoint_that_the_old_and_the_new_key_signed_counts() -> None:
    forge, old, new = rotated()
    size = len(forge.rows)
    both = [SignedCheckpoint.parse(forge.note(size, key).encode()).note for key in (old, new)]
    note = replace(both[0], signatures=both[0].signatures + both[1].signatures)
    forge.sealed = [CheckpointRow(size, note.raw)]
    report = verify(forge.source())
    assert (report.code, report.sealed) == (FIRST_LOOK, size)


def test_a_retirement_names_a_checkpoint_of_the_records_before_it() -> None:
    forge = small_ledger()
    forge.enrol("log")
    engine = forge.keys["engine"]
    forge.enrol("engine")
    forge.seal(70)
    forge.retire(engine, 70)
    assert verify(forge.source())["tree"].status == "PASS"


@pytest.mark.parametrize(("size", "found"), [(70, []), (71, ["size 71"])])
def test_a_retirement_names_no_more_records_than_came_before_it(
    size: int, found: list[str]
) -> None:
    forge = small_ledger()
    forge.enrol("log")
    forge.retire(forge.keys["authority"], size)
    report = verify(forge.source())
    assert [finding.found for finding in report.findings] == found
    assert all(finding.place == "ledger v5" for finding in report.findings)


def test_a_retirement_over_another_root() -> None:
    forge = small_ledger()
    key = forge.enrol("log")
    engine = forge.keys["engine"]
    forge.enrol("engine")
    forge.seal(70)
    made = forge.note
    text = signed(forge, 70, bytes(32), key=key).note.decode()
    forge.note = lambda size, key=None: text if size == 70 else made(size, key)  # type: ignore[method-assign]
    forge.retire(engine, 70)
    finding = only(verify(forge.source()))
    assert (finding.place, finding.expected, finding.code) == (
        "ledger v6",
        f"root {bytes(32).hex()} at size 70",
        TAMPERED,
    )


# ── tiles ────────────────────────────────────────────────────────────────────────────────────────────


def tall() -> Forge:
    """A ledger of more than two tiles, sealed whole."""
    forge = long_ledger(9)
    forge.seal()
    assert len(forge.rows) > 513
    return forge


def changed(source: MemorySource, place: int, **values: bytes) -> None:
    source.tree[place] = replace(source.tree[place], **values)


def test_stored_tiles_agree() -> None:
    forge = tall()
    source = forge.source()
    assert {(tile.level, tile.number) for tile in source.tree} == {(0, 0), (0, 1), (0, 2), (1, 0)}
    report = verify(source)
    assert report["tree"].note == f"sealed to {len(forge.rows)}"


def flip(raw: bytes, at: int) -> bytes:
    return raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :]


SPOILED: dict[str, tuple[Callable[[MemorySource], object], str]] = {
    "a-hash": (lambda s: changed(s, 1, hashes=flip(s.tree[1].hashes, 32 * 5)), "tile 0/1"),
    "a-hash-of-the-edge": (lambda s: changed(s, 2, hashes=flip(s.tree[2].hashes, 0)), "tile 0/2"),
    "a-row-id": (lambda s: changed(s, 0, row_ids=flip(s.tree[0].row_ids, 15)), "tile 0/0"),
    "two-row-ids-in-another-order": (
        lambda s: changed(
            s, 0, row_ids=s.tree[0].row_ids[8:16] + s.tree[0].row_ids[:8] + s.tree[0].row_ids[16:]
        ),
        "tile 0/0",
    ),
    "fewer-row-ids": (lambda s: changed(s, 0, row_ids=s.tree[0].row_ids[:-8]), "tile 0/0"),
    "half-a-hash": (lambda s: changed(s, 2, hashes=s.tree[2].hashes[:-1]), "tile 0/2"),
    "an-empty-tile": (lambda s: changed(s, 2, hashes=b"", row_ids=b""), "tile 0/2"),
    "a-tile-cut-in-the-middle": (
        lambda s: changed(s, 0, hashes=s.tree[0].hashes[:-32], row_ids=s.tree[0].row_ids[:-8]),
        "tile 0/1",
    ),
    "a-hash-above": (lambda s: changed(s, 3, hashes=flip(s.tree[3].hashes, 3)), "tile 1/0"),
    "a-tile-missing": (lambda s: s.tree.pop(1), "tile 0/1"),
    "a-tile-above-missing": (lambda s: s.tree.pop(3), "tile 1/0"),
    "a-tile-too-many": (
        lambda s: s.tree.append(TileRow(0, 7, bytes(32), bytes(8))),
        "tile 0/7",
    ),
    "a-tile-of-a-negative-number": (
        lambda s: s.tree.append(TileRow(0, -1, bytes(32), bytes(8))),
        "tile 0/-1",
    ),
    "a-tile-of-a-negative-level": (
        lambda s: s.tree.append(TileRow(-1, 0, bytes(32), b"")),
        "tile -1/0",
    ),
    "a-level-too-many": (lambda s: s.tree.append(TileRow(2, 0, bytes(32), b"")), "tile 2/0"),
    "no-position": (lambda s: setattr(s, "at", None), "the tree's position"),
    "a-position-on-another-row": (
        lambda s: setattr(s, "at", Position(1, 9, s.at.digest if s.at else "")),
        "the tree's position",
    ),
    "a-position-on-no-row": (
        lambda s: setattr(s, "at", Position(1, 999_999, "")),
        "the tree's position",
    ),
    "a-position-with-another-digest": (
        lambda s: setattr(s, "at", Position(1, s.at.row_id if s.at else 0, "0" * 64)),
        "the tree's position",
    ),
}


@pytest.mark.parametrize(("spoil", "place"), SPOILED.values(), ids=SPOILED.keys())
def test_tiles_that_do_not_agree_are_derived_state_that_differs(
    spoil: Callable[[MemorySource], object], place: str
) -> None:
    source = tall().source()
    spoil(source)
    report = verify(source)
    assert report.codes == [DIFFERS], report.findings
    assert place in [finding.place for finding in report["tree"].findings]
    assert report.sealed == report.records  # the checkpoint is over the rows, not over the tiles


def test_the_record_whose_hash_is_wrong_is_named() -> None:
    source = tall().source()
    changed(source, 1, hashes=flip(source.tree[1].hashes, 32 * 5 + 7))
    assert only(verify(source)).expected == "the hash of record 261"
    source = tall().source()
    changed(source, 1, row_ids=flip(source.tree[1].row_ids, 8 * 6 + 7))
    assert only(verify(source)).expected == "the row id of record 262"


def test_a_tree_that_was_dropped_or_lags_is_no_difference() -> None:
    forge = tall()
    source = forge.source()
    source.tree, source.at = [], None
    report = verify(source)
    size = len(forge.rows)
    assert (report.code, report["tree"].note) == (
        FIRST_LOOK,
        f"sealed to {size}, no tiles: causebook rebuild",
    )
    source.tree = tiles_of(forge.rows[:300])
    source.at = Position(1, 300, digest(forge.rows[299].record))
    report = verify(source)
    assert (report.code, report["tree"].note) == (
        FIRST_LOOK,
        f"sealed to {size}, its tiles reach to 300: causebook rebuild",
    )


def test_a_tree_of_another_version_is_not_compared() -> None:
    source = tall().source()
    source.tree = [TileRow(0, 0, bytes(32), bytes(8))]
    source.at = Position(2, 1, "")
    report = verify(source)
    assert (report.code, report["tree"].status) == (FIRST_LOOK, "PASS")


def test_tiles_are_compared_where_nothing_is_sealed_too() -> None:
    source = small_ledger().source()
    source.tree = [TileRow(0, 0, bytes(32), (1).to_bytes(8, "big"))]
    source.at = Position(1, 1, "")
    report = verify(source)
    assert report.codes == [DIFFERS]


def test_a_note_parses_as_what_was_sealed() -> None:
    forge = sealed()
    report = verify(forge.source())
    assert report.looked is not None
    newest = SignedCheckpoint.parse(forge.sealed[-1].note)
    assert (report.looked.checkpoint, report.looked.size) == (newest, len(forge.rows))
    assert report.looked.root == newest.checkpoint.root
