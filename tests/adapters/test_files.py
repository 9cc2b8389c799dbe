"""A file that somebody named is read at once and whole, or refused in one line."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from causebook.adapters.files import read_file
from causebook.domain.errors import BadData, NoInput


def test_a_file_of_the_most_that_it_may_hold_is_read(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"a" * 10)
    assert read_file(file, 10, "a checkpoint") == b"a" * 10
    with pytest.raises(BadData, match="at most 9 bytes, found more"):
        read_file(file, 9, "a checkpoint")


def test_a_pipe_that_is_written_to_is_read_to_its_end(tmp_path: Path) -> None:
    """What a shell makes of `<(command)`."""
    reading, writing = os.pipe()
    writer = threading.Thread(target=_write_slowly, args=(writing, [b"check", b"point"]))
    writer.start()
    assert read_file(f"/dev/fd/{reading}", 10, "a checkpoint") == b"checkpoint"
    writer.join()
    os.close(reading)


def _write_slowly(descriptor: int, parts: list[bytes]) -> None:
    with open(descriptor, "wb", buffering=0) as file:
        for part in parts:
            file.write(part)


def test_what_is_no_file_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "pipe")
    for name in ("pipe", "link", ".", "missing", "pipe/below", "null\0byte"):
        with pytest.raises(NoInput, match="expected"):
            read_file(f"{tmp_path}/{name}", 10, "a checkpoint")
    with pytest.raises(NoInput, match="found no file"):
        read_file("/dev/zero", 10, "a checkpoint")
