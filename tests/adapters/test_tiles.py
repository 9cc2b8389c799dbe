"""The log as tiles: names and widths as the text has them, and an export that goes on where another ended."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from causebook.adapters.handover.sealed_log import sealed_log
from causebook.adapters.handover.tiles import (
    check_upper_tiles,
    packed_entries,
    read_checkpoint,
    read_log,
    tile_path,
    unpacked_entries,
    widths,
    write_tiles,
)
from causebook.domain.errors import BadData, CannotCreate, NoInput
from tests.adapters.bundles import judged, sealed_ledger
from tests.adapters.forge import Forge


@pytest.mark.parametrize(
    ("level", "number", "width", "path"),
    [
        (0, 0, 256, "tile/0/000"),
        (0, 1234067, 256, "tile/0/x001/x234/067"),
        (1, 1000, 8, "tile/1/x001/000.p/8"),
        (None, 999, 1, "tile/entries/999.p/1"),
    ],
)
def test_names_of_tiles(level: int | None, number: int, width: int, path: str) -> None:
    assert tile_path(level, number, width) == path


@pytest.mark.parametrize(
    ("size", "tiles"),
    [
        (1, [(0, 0, 1)]),
        (255, [(0, 0, 255)]),
        (256, [(0, 0, 256), (1, 0, 1)]),
        (257, [(0, 0, 256), (0, 1, 1), (1, 0, 1)]),
    ],
)
def test_which_tiles_a_size_calls_for(size: int, tiles: list[tuple[int, int, int]]) -> None:
    assert list(widths(size)) == tiles


def test_the_example_of_the_text_comes_out() -> None:
    """70,000: 273 full level 0 tiles and one of 112, one full level 1 tile and one of 17, one of width 1."""
    found = list(widths(70_000))
    assert len([tile for tile in found if tile[0] == 0 and tile[2] == 256]) == 273
    assert found[273:] == [(0, 273, 112), (1, 0, 256), (1, 1, 17), (2, 0, 1)]


def test_entries_are_read_as_they_were_written() -> None:
    records = [b"one\n", b"", b"x" * 61_440]
    raw = packed_entries(records)
    assert raw[:2] == b"\x00\x04"
    assert unpacked_entries(raw, 3) == records
    for broken, width in ((raw[:-1], 3), (raw, 2), (raw, 4), (raw + b"\x00", 3), (b"\xff\xff", 1)):
        with pytest.raises(ValueError, match="expected"):
            unpacked_entries(broken, width)


@pytest.fixture
def forge() -> Forge:
    return sealed_ledger()


def exported(forge: Forge, folder: Path, size: int | None = None) -> tuple[int, int]:
    """(records that were there before, files written)."""
    mirrored = write_tiles(sealed_log(forge.source(), size), folder)
    return mirrored.before, mirrored.files


def test_an_export_reads_back_and_leads_to_its_root(forge: Forge, tmp_path: Path) -> None:
    folder = tmp_path / "log"
    exported(forge, folder)
    said = read_checkpoint(folder).checkpoint
    assert list(read_log(folder, said.size)) == [row.record for row in forge.rows]
    assert check_upper_tiles(folder, said.size) == said.root


def test_it_goes_on_from_an_earlier_export(forge: Forge, tmp_path: Path) -> None:
    folder = tmp_path / "log"
    exported(forge, folder)
    size = len(forge.rows)
    assert exported(forge, folder) == (size, 1)  # the checkpoint alone
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    judged(forge, *(f"T-{n}" for n in range(3, 12)))
    forge.seal()
    assert exported(forge, folder)[0] == size
    for path, raw in before.items():
        if path.name != "checkpoint":
            assert path.read_bytes() == raw, path
    said = read_checkpoint(folder).checkpoint
    assert said.size == len(forge.rows) > 256
    assert check_upper_tiles(folder, said.size) == said.root
    # What an older checkpoint calls for is there still.
    assert list(read_log(folder, size)) == [row.record for row in forge.rows[:size]]


def test_it_refuses_a_folder_of_anything_else(forge: Forge, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(CannotCreate, match="an empty folder, or an earlier export"):
        exported(forge, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"notes.txt"}


def test_it_takes_up_an_export_that_was_cut_short(forge: Forge, tmp_path: Path) -> None:
    folder = tmp_path / "log"
    exported(forge, folder)
    (folder / "checkpoint").unlink()
    next((folder / "tile" / "entries").rglob("000.p/*")).unlink()
    assert exported(forge, folder) == (0, 2)
    assert list(read_log(folder, len(forge.rows))) == [row.record for row in forge.rows]


def test_it_refuses_an_export_of_another_log(forge: Forge, tmp_path: Path) -> None:
    folder = tmp_path / "log"
    other = sealed_ledger(seed="other")
    exported(other, folder)
    before = sorted(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    with pytest.raises(CannotCreate, match="another root at size"):
        exported(forge, folder)
    longer = sealed_ledger()
    judged(longer, "T-3")
    longer.seal()
    exported(longer, tmp_path / "longer")
    with pytest.raises(CannotCreate, match="a longer one"):
        exported(forge, tmp_path / "longer")
    assert sorted(path.read_bytes() for path in folder.rglob("*") if path.is_file()) == before


def test_a_file_that_was_changed_is_not_written_over(forge: Forge, tmp_path: Path) -> None:
    folder = tmp_path / "log"
    exported(forge, folder)
    path = next((folder / "tile" / "entries").rglob("000.p/*"))
    path.write_bytes(b"damaged")
    with pytest.raises(CannotCreate, match="expected the bytes of this log, found others"):
        exported(forge, folder)
    path.unlink()
    exported(forge, folder)
    assert list(read_log(folder, len(forge.rows))) == [row.record for row in forge.rows]


def test_what_is_wrong_with_an_export_is_named(forge: Forge, tmp_path: Path) -> None:
    folder = tmp_path / "log"
    exported(forge, folder)
    size = len(forge.rows)
    (leaves,) = (folder / "tile" / "0").rglob("000.p/*")
    raw = leaves.read_bytes()
    leaves.write_bytes(raw[::-1])
    with pytest.raises(BadData, match="expected the leaves of its entries"):
        list(read_log(folder, size))
    leaves.write_bytes(raw[:-1])
    with pytest.raises(BadData, match="hashes, found"):
        check_upper_tiles(folder, size)
    leaves.write_bytes(raw + b"x" * 8192)
    with pytest.raises(BadData, match="at most 8192 bytes"):
        check_upper_tiles(folder, size)
    leaves.unlink()
    with pytest.raises(NoInput, match="expected a file of the log"):
        check_upper_tiles(folder, size)
    with pytest.raises(NoInput):
        check_upper_tiles(folder, 2**53 - 1)  # whatever a checkpoint says


# ── what was there before, and what must not be written ──────────────────────────────────────────────


def files_in(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if not path.is_dir()]


def test_what_a_killed_export_left_is_passed_over(forge: Forge, tmp_path: Path) -> None:
    """Its checkpoint was not in place yet: what stands beside is one under a name that begins with a dot."""
    folder = tmp_path / "log"
    exported(forge, folder)
    (folder / "checkpoint").rename(folder / ".checkpoint.0123456789abcdef")
    assert exported(forge, folder) == (0, 1)
    assert exported(forge, folder) == (len(forge.rows), 1)
    for path in list(files_in(folder)):
        if not path.name.startswith("."):
            path.unlink()
    assert exported(forge, folder)[0] == 0


def test_records_that_do_not_lead_to_the_root_are_written_nowhere(
    forge: Forge, tmp_path: Path
) -> None:
    """The tiles in the store do, so that the checkpoint holds; the last record is another."""
    source = forge.source()
    source.stored[-1] = source.stored[-1]._replace(record=forge.rows[-2].record)
    log = sealed_log(source)
    with pytest.raises(BadData, match="expected records that lead to the root"):
        write_tiles(log, tmp_path / "log")
    assert files_in(tmp_path) == []


def test_what_is_too_long_for_a_record_is_no_entry(forge: Forge, tmp_path: Path) -> None:
    """Its length would not fit in two bytes, though a checkpoint counts it and a key signed that."""
    forge.rows[-1] = forge.rows[-1]._replace(record=b"x" * 70_000)
    forge.seal()
    with pytest.raises(BadData, match="expected records"):
        exported(forge, tmp_path / "log")
    assert files_in(tmp_path) == []


def fifo(path: Path, content: bytes) -> None:
    os.mkfifo(path)


def folder(path: Path, content: bytes) -> None:
    path.mkdir()


def link(path: Path, content: bytes) -> None:
    """To the very bytes that would be written."""
    target = path.with_name("elsewhere")
    target.write_bytes(content)
    path.symlink_to(target)


def endless(path: Path, content: bytes) -> None:
    """Far more than any memory holds, and nothing on the disk."""
    with path.open("wb") as file:
        file.truncate(2**42)


@pytest.mark.parametrize("put", [fifo, folder, link, endless])
def test_what_stands_in_the_place_of_a_tile_is_not_waited_for_or_read_whole(
    forge: Forge, tmp_path: Path, put: Callable[[Path, bytes], None]
) -> None:
    exported(forge, tmp_path / "log")
    (path,) = (tmp_path / "log" / "tile" / "entries").rglob("000.p/*")
    content = path.read_bytes()
    path.unlink()
    put(path, content)
    with pytest.raises(CannotCreate, match="expected the bytes of this log, found others"):
        exported(forge, tmp_path / "log")


def test_a_pipe_in_the_place_of_a_file_is_no_file_of_the_log(forge: Forge, tmp_path: Path) -> None:
    folder = tmp_path / "log"
    exported(forge, folder)
    (path,) = (folder / "tile" / "entries").rglob("000.p/*")
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(NoInput, match="expected a file of the log, found none"):
        list(read_log(folder, len(forge.rows)))
    (folder / "checkpoint").unlink()
    os.mkfifo(folder / "checkpoint")
    with pytest.raises(CannotCreate, match="an earlier export, found something else"):
        exported(forge, folder)
