"""How much a workspace looks at, and how much it answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Limits:
    """The bounds of a workspace; a test brings smaller ones.

    `read_bytes_max`         of text in the answer to one read, notes of ours not counted
    `brief_bytes_max`        the same, of the difference shown before a panel begins
    `listed_files_max`       names in one list
    `found_files_max`        files that one question may be about; beyond it is refused
    `hashed_bytes_max`       of all files, which are hashed to know the state of the tree
    `summary_bytes_max`      of files whose lines one summary counts
    `summary_kinds_max`      rows of one summary
    `whole_bytes_max`        of a file that is read to its end, to count its lines and know its blob id
    `scan_bytes_max`         of any file that are read for one answer
    `diffed_file_bytes_max`  of an uncommitted file that is compared
    `chunk_bytes`            of a file that are in memory at once
    """

    read_bytes_max: int = 64 * 1024
    brief_bytes_max: int = 256 * 1024
    listed_files_max: int = 2_000
    found_files_max: int = 1_000_000
    hashed_bytes_max: int = 64 * 1024 * 1024 * 1024
    summary_bytes_max: int = 64 * 1024 * 1024
    summary_kinds_max: int = 50
    whole_bytes_max: int = 64 * 1024 * 1024
    scan_bytes_max: int = 1024 * 1024 * 1024
    diffed_file_bytes_max: int = 8 * 1024 * 1024
    chunk_bytes: int = 256 * 1024


LIMITS: Final = Limits()
