"""adapters/durable.py: what is on the disk when a call returns, and what is there when it fails."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from causebook.adapters.durable import (
    make_folder_durably,
    replace_durably,
    write_new,
)
from causebook.adapters.keys import KeyFolder
from causebook.adapters.verification.pins import Pins
from causebook.domain.errors import IOFailure

from .logs import SmallLog
from .test_pins import looked
from .witnesses import make_witness


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """The inodes of what was put on the disk."""
    seen, fsync = set[int](), os.fsync

    def tell(descriptor: int) -> None:
        fsync(descriptor)
        seen.add(os.fstat(descriptor).st_ino)

    monkeypatch.setattr(os, "fsync", tell)
    return seen


def break_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on no folder can be put on the disk."""
    fsync = os.fsync

    def fail(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", fail)


def _keys(folder: Path) -> None:
    KeyFolder(folder).make()


def _pins(folder: Path) -> None:
    assert Pins(folder).move(looked(), was=None, places=["sqlite:////a.db"])


def _witness(folder: Path) -> None:
    log = SmallLog()
    log.grow(1)
    make_witness(folder, "w1.example.com", [log.key], lambda: 1_800_000_000)


@pytest.mark.parametrize("make", [make_folder_durably, _keys, _pins, _witness])
def test_a_folder_that_is_made_is_on_the_disk_by_its_name(
    make: Callable[[Path], object], tmp_path: Path, synced: set[int]
) -> None:
    """Else its files are, and no name leads to them."""
    make(tmp_path / "a" / "b" / "c")
    above = [tmp_path, tmp_path / "a", tmp_path / "a" / "b"]
    assert {each.stat().st_ino for each in above} <= synced
    assert stat.S_IMODE((tmp_path / "a" / "b" / "c").stat().st_mode) == 0o700


@pytest.mark.parametrize("make", [make_folder_durably, _keys, _pins, _witness])
def test_so_is_one_that_somebody_made_and_was_cut_short(
    make: Callable[[Path], object], tmp_path: Path, synced: set[int]
) -> None:
    (tmp_path / "a").mkdir(mode=0o700)
    make(tmp_path / "a")
    assert tmp_path.stat().st_ino in synced


def test_a_file_where_the_folder_belongs_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"")
    with pytest.raises(FileExistsError):
        make_folder_durably(tmp_path / "a")
    with pytest.raises(NotADirectoryError):
        make_folder_durably(tmp_path / "a" / "b")


def test_where_the_name_cannot_be_put_on_the_disk_the_new_file_is_there_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file"
    replace_durably(file, b"old")
    break_folders(monkeypatch)
    with pytest.raises(OSError, match="Input/output error"):
        replace_durably(file, b"new")
    assert file.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["file"]


def test_where_the_file_cannot_be_replaced_the_old_one_is_there_whole(tmp_path: Path) -> None:
    (tmp_path / "file").mkdir()
    with pytest.raises(IsADirectoryError):
        replace_durably(tmp_path / "file", b"new")
    assert os.listdir(tmp_path) == ["file"]


def test_a_new_file_takes_no_other_s_place(tmp_path: Path) -> None:
    assert write_new(tmp_path / "a", lambda file: file.write(b"first")) == 5
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o600
    (tmp_path / "b").symlink_to("nowhere")
    for name in ("a", "b"):
        with pytest.raises(FileExistsError):
            write_new(tmp_path / name, lambda file: file.write(b"second"))
    assert (tmp_path / "a").read_bytes() == b"first"
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]


def test_a_writer_that_fails_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        write_new(tmp_path / "a", lambda file: file.write(b"half") / 0)
    assert os.listdir(tmp_path) == []


def test_a_pin_whose_folder_cannot_be_put_on_the_disk_is_an_io_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_folders(monkeypatch)
    with pytest.raises(IOFailure, match="no pin can be kept here: Input/output error"):
        _pins(tmp_path / "pins")
