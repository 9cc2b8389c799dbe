"""What both stores decide alike: the format, the names of locks, and what a refused insert means."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby

from ...domain.errors import BadData, Busy, IOFailure, VersionConflict
from .port import CheckpointRow, Position, ProjectionRow, Row

FORMAT_VERSION = 1
LEDGER = "ledger"
NO_LEDGER_HINT = "--ledger URL or CAUSEBOOK_LEDGER names another; causebook init makes one"

_TILE_WIDTH, _HASH_BYTES = 256, 32
_ROW_ID_MIN, _ROW_ID_MAX = -(2**63), 2**63 - 1
_LOCK_NAME = re.compile(r"[0-9a-f]{32}\Z")


def check_format(shown: str, versions: Sequence[object]) -> None:
    """Raise `BadData` unless the rows of `causebook_format` are the one this program reads and writes."""
    if len(versions) != 1 or type(versions[0]) is not int or versions[0] < 1:
        raise BadData(f"{shown}: expected one row in causebook_format, found {list(versions)[:3]}")
    if versions[0] != FORMAT_VERSION:
        raise BadData(
            f"{shown}: expected store format {FORMAT_VERSION}, found {versions[0]}",
            hint="upgrade causebook",
        )


def not_a_ledger(shown: str) -> BadData:
    return BadData(f"{shown}: is not a causebook ledger", hint=NO_LEDGER_HINT)


def check_lock_name(name: str) -> str:
    if not _LOCK_NAME.match(name):
        raise ValueError(f"a lock is named by 32 lower-case hex digits, not {name!r}")
    return name


def projector_lock_name(projection: str) -> str:
    """The lock that stands for the right to write `projection`, in the same name space as the runners'."""
    return hashlib.sha256(b"causebook/projector/" + projection.encode()).hexdigest()[:32]


def position_of(version: object, row_id: object, digest: object) -> Position:
    """A stored position. A value of a wrong type becomes one that no record answers to."""
    return Position(
        version if isinstance(version, int) else -1,
        row_id if isinstance(row_id, int) else -1,
        digest if isinstance(digest, str) else f"a {type(digest).__name__}",
    )


def row_id_within(row_id: int) -> int:
    """The row id, or the nearest one that a store can hold: the one before a planted one may be beyond."""
    return min(max(row_id, _ROW_ID_MIN), _ROW_ID_MAX)


def projection_row(key: object, value: object) -> ProjectionRow:
    """A stored row of a projection. One of a wrong type becomes one that follows from no event."""
    name = key.decode(errors="backslashreplace") if isinstance(key, bytes) else str(key)
    return ProjectionRow(
        name if isinstance(key, str) else f"a {type(key).__name__}: {name}",
        value if isinstance(value, bytes) else f"a {type(value).__name__}".encode(),
    )


def tree_moved(shown: str, was: Position | None, found: object) -> Busy:
    """The refusal of a write to the tree that another has written to meanwhile."""
    return Busy(
        f"{shown}: the tree: expected position {was}, found {found}",
        hint="another seal was first: run it again",
    )


def sealed_already(shown: str, size: int) -> Busy:
    """The refusal of a second checkpoint of one size, or of one that is not larger than the newest."""
    return Busy(
        f"{shown}: expected to seal {size} records, found another checkpoint of as many or of more",
        hint="another seal was first: run it again",
    )


def tree_size(last: tuple[object, ...] | None) -> int:
    """How many leaves the last tile of level 0 (number, bytes of its hashes) reaches to."""
    match last:
        case (int(number), int(length)) if number >= 0:
            return number * _TILE_WIDTH + length // _HASH_BYTES
    return 0


def checkpoint_rows(
    found: Iterable[tuple[int, bytes, str | None, bytes | None]],
) -> Iterator[CheckpointRow]:
    """Checkpoints from rows of (size, note, kind, body), by size: one row for each addition, or one."""
    for (size, note), rows in groupby(found, key=lambda row: row[:2]):
        added: dict[str | None, list[bytes]] = {}
        for _, _, kind, body in rows:
            added.setdefault(kind, []).append(body or b"")
        yield CheckpointRow(
            size, note, tuple(added.get("cosignature", ())), tuple(added.get("timestamp", ()))
        )


def prefix_end(prefix: str) -> str | None:
    """The least string above every string that begins with `prefix`, by code point; None: there is none."""
    kept = prefix.rstrip("\U0010ffff")
    if not kept:
        return None
    following = ord(kept[-1]) + 1
    # Surrogates are no scalar values: neither database stores one.
    return kept[:-1] + chr(0xE000 if following == 0xD800 else following)


def already_there(rows: Sequence[Row], stored: Callable[[str, int], Row | None]) -> bool:
    """Whether all rows are stored, byte for byte: then an append that was not acknowledged had happened."""
    return bool(rows) and all(stored(row.stream, row.version) == row for row in rows)


def refused(
    shown: str,
    rows: Sequence[Row],
    stored: Callable[[str, int], Row | None],
    newest: Callable[[str], int],
    why: str,
) -> Exception:
    """What to raise for an insert that the store refused and that had not happened before."""
    for row in rows:
        found = stored(row.stream, row.version)
        if found is not None:
            what = (
                "this record, but not all that was appended with it"
                if found == row
                else "another record"
            )
            return VersionConflict(
                f"{shown}: stream {row.stream!r}: version {row.version} is taken by {what}",
                hint="another writer was first: read the stream again",
            )
    ends: dict[str, int] = {}
    for row in rows:
        end = ends.get(row.stream)
        end = newest(row.stream) if end is None else end
        if row.version != end + 1:
            return IOFailure(
                f"{shown}: stream {row.stream!r}: expected version {end + 1} next, found {row.version}",
                hint="was the store restored from a copy? causebook verify compares it with its pin",
            )
        ends[row.stream] = row.version
    return ValueError(f"{shown}: the store refuses a row: {why}")
