"""What is handed out of each store: bundles, tiles and proofs; and what a store that was changed gives."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from causebook.adapters.bundle.write import write_bundle
from causebook.adapters.checking.check import check_files
from causebook.adapters.findings import FIRST_LOOK, INTACT
from causebook.adapters.handover.new_file import write_new
from causebook.adapters.handover.sealed_log import sealed_log
from causebook.adapters.handover.tiles import write_tiles
from causebook.adapters.store.snapshot import Snapshot, open_snapshot
from causebook.domain.errors import BadData
from causebook.projections.tree import leaf_hash, verify_inclusion
from tests.adapters.bundles import faults
from tests.adapters.forge import reads, verdict
from tests.adapters.ledgers import Home, hear_each, judges
from tests.attacks.intruder import Intruder


@pytest.fixture
def home(store_url: str, tmp_path: Path) -> Home:
    """A ledger with a task that was judged, sealed."""
    home = Home.found(store_url, tmp_path)
    with home.open() as ledger:
        for task in ("T-1", "T-2"):
            attempt = ledger.task(task).start_attempt()
            with attempt.convene("post_execute", "any", judges("security")) as panel:
                hear_each(panel, {"security": [reads("a.py"), verdict("pass")]})
        ledger.seal()
    return home


@pytest.fixture
def snapshot(home: Home) -> Iterator[Snapshot]:
    with open_snapshot(home.url) as found:
        yield found


def test_a_bundle_and_tiles_hold(snapshot: Snapshot, tmp_path: Path) -> None:
    path = tmp_path / "T-1.zip"
    written = write_new(path, lambda file: write_bundle(snapshot, "T-1", file, evidence=True))
    assert written.evidence > 0
    log = sealed_log(snapshot)
    write_tiles(log, tmp_path / "tiles")
    reports = check_files([str(path), str(tmp_path / "tiles")])
    assert ([each.code for each in reports], faults(reports)) == ([FIRST_LOOK, FIRST_LOOK], [])
    reports = check_files([str(path), str(tmp_path / "tiles")], log_keys=[log.signer])
    assert [each.code for each in reports] == [INTACT, INTACT]


def test_each_record_is_proved_out_of_the_stored_tiles(home: Home, snapshot: Snapshot) -> None:
    log = sealed_log(snapshot)
    root = log.checkpoint.checkpoint.root
    rows = [row.record for row in home.rows()]
    for index, record in enumerate(rows):
        path = log.view.inclusion(index)
        verify_inclusion(index, log.size, leaf_hash(record), path, root)
        assert log.view.record(index).record == record


def test_a_store_whose_tiles_are_gone_gives_the_same_proofs(home: Home) -> None:
    with open_snapshot(home.url) as snapshot:
        stored = [sealed_log(snapshot).view.inclusion(index) for index in (0, 5)]
    with home.store() as store:
        store.drop_tree()
    with open_snapshot(home.url) as snapshot:
        assert [sealed_log(snapshot).view.inclusion(index) for index in (0, 5)] == stored


def test_a_store_that_lost_another_tasks_row_hands_out_nothing_past_it(
    home: Home, tmp_path: Path
) -> None:
    at = next(n for n, row in enumerate(home.rows()) if row.stream == "task/T-2")
    with Intruder(home.url) as intruder:
        intruder.delete("task/T-1", 1)
    path = tmp_path / "x.zip"
    with open_snapshot(home.url) as snapshot:
        with pytest.raises(BadData, match="expected the record that the tree has at index"):
            write_new(path, lambda file: write_bundle(snapshot, "T-2", file))
        log = sealed_log(snapshot)
        row = next(row for _, row in snapshot.rows() if row.stream == "task/T-2")
        with pytest.raises(BadData, match="expected the record that the tree has at index"):
            log.proof(at - 1, row)  # where it stands among the rows, now
        assert log.proof(at, row).path == log.view.inclusion(at)
    assert not path.exists()


def test_a_record_that_was_changed_in_the_store_is_handed_to_nobody(
    home: Home, tmp_path: Path
) -> None:
    with Intruder(home.url) as intruder:
        record = intruder.record("task/T-2", 1)
        intruder.overwrite("task/T-2", 1, record.replace(b'"T-2"', b'"T-9"'))
    with open_snapshot(home.url) as snapshot:
        with pytest.raises(BadData):
            write_new(tmp_path / "x.zip", lambda file: write_bundle(snapshot, "T-2", file))
        with pytest.raises(BadData):
            write_tiles(sealed_log(snapshot), tmp_path / "tiles")
    assert not (tmp_path / "x.zip").exists()
    assert not (tmp_path / "tiles" / "checkpoint").exists()
