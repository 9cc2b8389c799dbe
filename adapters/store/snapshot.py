"""Reading a ledger for verification: one snapshot, nothing written, no event store, no server code loaded.

A verifier asks a ledger that may have been tampered with. Rows of the wrong shape are therefore handed out as
well as they can be, and noted in `anomalies`; what is no ledger at all is a `BadData`.

    with open_snapshot("sqlite:///ledger.db") as snapshot:
        for row_id, row in snapshot.rows():
            ...

On SQLite the snapshot is one of three, and none leaves a file behind beside the ledger:

- no filled `-wal` beside it: the file is read with `immutable=1`, which takes no lock, works on a read-only
  mount, and holds only while nobody checkpoints: at the end, size and time of the file must be what they were
- a filled `-wal`: the file and the log are copied to a private folder, and read there
- `live=True`, a `-wal` and the `-shm` of whoever writes: read in place, in one transaction, while others
  write. SQLite is told neither to write to the `-shm` nor to make one

On PostgreSQL it is one REPEATABLE READ, READ ONLY transaction.
"""

from __future__ import annotations

from .location import SQLiteLocation, locate, postgres_module
from .snapshot_port import Snapshot
from .snapshot_sqlite import open_sqlite_snapshot

__all__ = ["Snapshot", "open_snapshot"]


def open_snapshot(url: str, *, live: bool = False) -> Snapshot:
    """Open a ledger for reading, as a context manager. `live`: it is in use, read it in place.

    Raises `NoInput`, `BadData`, `Busy`, `IOFailure`, `Denied`, `StoreUnavailable`, `Misuse`.
    """
    where = locate(url)
    if isinstance(where, SQLiteLocation):
        return open_sqlite_snapshot(where, live=live)
    module = postgres_module("snapshot_postgres", where.shown)
    snapshot: Snapshot = module.PostgresSnapshot(where)
    return snapshot
