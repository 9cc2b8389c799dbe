"""The whole log as files: C2SP tlog-tiles (commit 0ad71eb1f1b9), so that any static file server is a mirror.

    DIR/checkpoint                 the newest checkpoint, cosignatures included
    DIR/tile/<L>/<N>[.p/<W>]       the hashes of tile N of level L; W of them where it is not full
    DIR/tile/entries/<N>[.p/<W>]   the records below tile N of level 0: length (two bytes, big-endian), record

N is written in groups of three digits, all but the last after an `x`: 1234067 is `x001/x234/067`.

An export into a folder that holds an earlier export of the same log goes on from there, where the log grew
out of the checkpoint that is there. A file of the log is never written over: one that is there has the bytes
that would be written, or is an error. A partial tile stays beside the wider one that follows it, since an
older checkpoint calls for it. The checkpoint comes last, so that whoever reads meanwhile finds all that it
counts. Nothing is written before all of the records are known to lead to its root. Names in the folder that
begin with a dot are nobody's: one may be what an export left that was killed.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ...domain.checkpoint import SignedCheckpoint
from ...domain.errors import BadData, CannotCreate, IOFailure, NoInput
from ...domain.limits import RECORD_BYTES_MAX
from ...domain.note import NOTE_BYTES_MAX, NoteError
from ...domain.proof import ProofError
from ...projections import tree
from ...projections.tree import HASH_BYTES, TILE_WIDTH, Frontier, leaf_hash
from ..durable import replace_durably
from ..files import without_waiting
from .new_file import write_bytes_new
from .sealed_log import SealedLog

_LENGTH_BYTES: Final = 2
_ENTRIES_BYTES_MAX: Final = TILE_WIDTH * (RECORD_BYTES_MAX + _LENGTH_BYTES)


@dataclass(frozen=True)
class Mirrored:
    """What an export came to: `size` of the log, `before` of what was there already, files written."""

    ledger: str
    size: int
    before: int
    files: int


def tile_path(level: int | None, number: int, width: int) -> str:
    """The path of a tile of hashes, or, of level None, of entries. `width` 256: the tile is full."""
    groups = [f"{number % 1000:03}"]
    while number >= 1000:
        number //= 1000
        groups.insert(0, f"x{number % 1000:03}")
    part = "" if width == TILE_WIDTH else f".p/{width}"
    return f"tile/{'entries' if level is None else level}/{'/'.join(groups)}{part}"


def widths(size: int) -> Iterator[tuple[int, int, int]]:
    """(level, number, width) of each tile of a tree of `size` leaves, level by level."""
    level = 0
    while size:
        full, partial = divmod(size, TILE_WIDTH)
        yield from ((level, number, TILE_WIDTH) for number in range(full))
        if partial:
            yield level, full, partial
        size, level = full, level + 1


def packed_entries(records: list[bytes]) -> bytes:
    """The bytes of an entry bundle."""
    return b"".join(len(each).to_bytes(_LENGTH_BYTES, "big") + each for each in records)


def unpacked_entries(raw: bytes, width: int) -> list[bytes]:
    """The records of an entry bundle that holds `width` of them. Raises `ValueError` where it does not."""
    records: list[bytes] = []
    at = 0
    while at < len(raw) and len(records) <= width:
        length = int.from_bytes(raw[at : at + _LENGTH_BYTES], "big")
        record = raw[at + _LENGTH_BYTES : at + _LENGTH_BYTES + length]
        if len(raw) - at < _LENGTH_BYTES or len(record) != length:
            raise ValueError("expected whole entries, found that it ends inside one")
        records.append(record)
        at += _LENGTH_BYTES + length
    if len(records) != width:
        found = len(records) if at == len(raw) else "more"
        raise ValueError(f"expected {width} entries, found {found}")
    return records


# ── writing ──────────────────────────────────────────────────────────────────────────────────────────


def write_tiles(log: SealedLog, folder: Path) -> Mirrored:
    """Write the log to `folder`, which is made, is empty, or holds an earlier export of the same log.

    Raises `CannotCreate` where it holds something else, `BadData` where that or what is stored does not
    hold.
    """
    before = _before(log, folder)
    old_size = 0 if before is None else before.checkpoint.size
    tiles = _tiles(log)
    files = 0
    for number, records in enumerate(_parted(log)):
        if b"".join(map(leaf_hash, records)) != tiles[0, number]:
            raise _others(log)
        path = tile_path(None, number, len(records))
        files += _write(folder / path, packed_entries(records))
    for level, number, width in widths(log.size):
        content = tiles[level, number]
        if len(content) != width * HASH_BYTES:
            raise ValueError("a tile of another width")
        files += _write(folder / tile_path(level, number, width), content)
    try:
        replace_durably(folder / "checkpoint", log.checkpoint.note.raw, mode=0o644)
    except OSError as error:
        raise _cannot(folder / "checkpoint", error) from None
    return Mirrored(log.ledger.origin, log.size, old_size, files + 1)


def _parted(log: SealedLog) -> Iterator[list[bytes]]:
    """The records of each entry bundle, in order. Raises `BadData` where one is too long to be a record."""
    records: list[bytes] = []
    for row in log.rows():
        if len(row.record) > RECORD_BYTES_MAX:
            raise _others(log)
        records.append(row.record)
        if len(records) == TILE_WIDTH:
            yield records
            records = []
    if records:
        yield records


def _tiles(log: SealedLog) -> dict[tuple[int, int], bytes]:
    """The hashes of every tile, by level and number, made from the records and not from what tiles say.

    Memory: 32 bytes a record. Raises `BadData` where the records do not lead to the checkpoint's root.
    """
    tiles: dict[tuple[int, int], bytes] = {}
    done = 0
    for records in _parted(log):
        leaves = [leaf_hash(record) for record in records]
        tiles.update(tree.grow(lambda *at: tiles.get(at, b""), done, leaves))
        done += len(records)
    try:
        root = tree.root(lambda *at: tiles.get(at, b""), log.size)
    except ProofError:
        root = b""
    if done != log.size or root != log.view.root():
        raise _others(log)
    return tiles


def _others(log: SealedLog) -> BadData:
    return BadData(
        f"{log.source.location}: expected records that lead to the root of its checkpoint, found others",
        hint="causebook verify says all that is wrong; no checkpoint was written",
    )


def _before(log: SealedLog, folder: Path) -> SignedCheckpoint | None:
    """The checkpoint of an earlier export that the log grew out of; None where the folder is new or empty."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        names = {each.name for each in folder.iterdir() if not each.name.startswith(".")}
    except OSError as error:
        raise _cannot(folder, error) from None
    if names <= {"tile"}:  # new, or an export that was cut short before its checkpoint
        return None
    try:
        before = read_checkpoint(folder)
    except NoInput:
        raise CannotCreate(
            f"{folder}: expected an empty folder, or an earlier export, found something else",
            hint="name another folder; nothing was written",
        ) from None
    said = before.checkpoint
    if said.origin != log.ledger.origin:
        raise CannotCreate(
            f"{folder}: expected an export of {log.ledger.origin}, found one of {said.origin}",
            hint="name another folder; nothing was written",
        )
    if said.size > log.size or log.view.root(said.size) != said.root:
        found = "a longer one" if said.size > log.size else f"another root at size {said.size}"
        raise CannotCreate(
            f"{folder}: expected an export that this log grew out of, found {found}",
            hint="one of the two was forked or restored: causebook verify --checkpoint says which",
        )
    return before


def _write(path: Path, content: bytes) -> int:
    """Write a file that never changes; 1 where it was not there. Raises `CannotCreate` where it differs."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if os.path.lexists(path):
            if _begins(path, len(content), os.O_NOFOLLOW) == content:
                return 0
            raise CannotCreate(
                f"{path}: expected the bytes of this log, found others",
                hint="it was damaged, or is of another log: name another folder",
            )
    except OSError as error:
        raise _cannot(path, error) from None
    write_bytes_new(path, content)
    return 1


def _begins(path: Path, bytes_max: int, flags: int = 0) -> bytes | None:
    """The first bytes of a file, one more than `bytes_max` at most; None where it is no regular file.

    Never waits for a pipe, and reads no device. Raises `OSError`.
    """
    try:
        descriptor = without_waiting(str(path), os.O_RDONLY | os.O_CLOEXEC | flags)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):  # a link, where none is followed; a socket
            return None
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        return None
    with open(descriptor, "rb") as file:
        return file.read(bytes_max + 1)


def _cannot(path: Path, error: OSError) -> CannotCreate:
    return CannotCreate(f"{path}: cannot be written: {error.strerror}", hint="name another folder")


# ── reading ──────────────────────────────────────────────────────────────────────────────────────────


def read_checkpoint(folder: Path) -> SignedCheckpoint:
    """The checkpoint of an export. Raises `NoInput` where there is none, `BadData` where it is none."""
    raw = _read(folder, "checkpoint", NOTE_BYTES_MAX)
    try:
        return SignedCheckpoint.parse(raw)
    except NoteError as error:
        raise BadData(f"{folder}/checkpoint: {error.message}") from None


def read_log(folder: Path, size: int) -> Iterator[bytes]:
    """The first `size` records of an export, tile by tile, each held against its leaf.

    Raises `NoInput` naming a file that is missing, `BadData` naming one that does not hold.
    """
    for number in range(-(-size // TILE_WIDTH)):
        width = min(TILE_WIDTH, size - number * TILE_WIDTH)
        path = tile_path(None, number, width)
        try:
            records = unpacked_entries(_read(folder, path, _ENTRIES_BYTES_MAX), width)
        except ValueError as error:
            raise BadData(f"{folder}/{path}: {error}") from None
        leaves = b"".join(map(leaf_hash, records))
        hashes = tile_path(0, number, width)
        if _read(folder, hashes, TILE_WIDTH * HASH_BYTES) != leaves:
            raise BadData(f"{folder}/{hashes}: expected the leaves of its entries, found others")
        yield from records


def check_upper_tiles(folder: Path, size: int) -> bytes:
    """The root that the tiles of an export come to, each level being what the one below comes to.

    Raises as `read_log` does.
    """
    edge = Frontier()
    for level, number, width in widths(size):
        raw = _read(folder, tile_path(level, number, width), TILE_WIDTH * HASH_BYTES)
        if len(raw) != width * HASH_BYTES:
            raise BadData(
                f"{folder}/{tile_path(level, number, width)}: expected {width} hashes, "
                f"found {len(raw)} bytes"
            )
        if level == 0:
            for at in range(0, len(raw), HASH_BYTES):
                edge.append(raw[at : at + HASH_BYTES])
        for place in range(width if level else 0):
            below = (number * TILE_WIDTH + place, level - 1)
            tile = _read(folder, tile_path(below[1], below[0], TILE_WIDTH), TILE_WIDTH * HASH_BYTES)
            held = raw[place * HASH_BYTES : (place + 1) * HASH_BYTES]
            if _root_over(tile) != held:
                raise BadData(
                    f"{folder}/{tile_path(level, number, width)}: expected the tree of tile "
                    f"{below[1]}/{below[0]}, found another"
                )
    return edge.root()


def root_at(folder: Path, log_size: int, size: int) -> bytes:
    """The root that the log of an export had at `size` records, by tiles that were checked before.

    Raises `ProofError` for a size below 1, and as `read_log` does.
    """

    def tile(level: int, number: int) -> bytes:
        there = (log_size >> 8 * level) - number * TILE_WIDTH
        path = tile_path(level, number, min(TILE_WIDTH, there))
        return _read(folder, path, TILE_WIDTH * HASH_BYTES)

    return tree.root(tile, size)


def _root_over(hashes: bytes) -> bytes:
    """The tree over the hashes of a tile; nothing where it has none."""
    edge = Frontier()
    for at in range(0, len(hashes), HASH_BYTES):
        edge.append(hashes[at : at + HASH_BYTES])
    return edge.root() if edge.size else b""


def _parts(folder: Path, name: str) -> Iterator[Path]:
    """Each folder on the way to a file of an export, and the file."""
    path = folder
    for part in name.split("/"):
        path = path / part
        yield path


def _read(folder: Path, name: str, bytes_max: int) -> bytes:
    path = folder / name
    try:
        link = next((p for p in _parts(folder, name) if p.is_symlink()), None)
        if link is not None:  # a few of them can make a folder of endless paths
            raise BadData(f"{link}: expected a file or a folder of the log, found a link")
        content = _begins(path, bytes_max)
    except (FileNotFoundError, NotADirectoryError):
        content = None
    except OSError as error:
        raise IOFailure(f"{path}: {error.strerror}") from None
    if content is None:
        raise NoInput(f"{path}: expected a file of the log, found none")
    if len(content) > bytes_max:
        raise BadData(f"{path}: expected at most {bytes_max} bytes, found more")
    return content
