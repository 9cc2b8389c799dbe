"""Opening a store by its URL; the forms of a URL are in `location.py`."""

from __future__ import annotations

from types import ModuleType

from .location import PostgresLocation, SQLiteLocation, display, locate, postgres_module
from .port import Store

JUDGE_LOCK_TIMEOUT_SECONDS = 30.0


def found(url: str, *, lock_timeout_seconds: float = JUDGE_LOCK_TIMEOUT_SECONDS) -> Store:
    """Make the place for a new ledger: parent folder, file or schema, and format. No record is written.

    Founding has two steps: this one, and the append of the founding records by the caller, with
    `ledger_version=0`. Each is one transaction. A ledger exists once it has a record: what a crash leaves
    between the two (a schema without any) is founded again by the next call. Of two founders at once, both
    may pass this step; the append of one is then refused with `LedgerMoved`.

    Raises `CannotCreate` where a ledger, another database or anything else is there, and what `open_store`
    raises.
    """
    where = locate(url)
    if isinstance(where, SQLiteLocation):
        from .sqlite import found_sqlite

        return found_sqlite(where, lock_timeout_seconds=lock_timeout_seconds)
    store: Store = _postgres(where).found_postgres(where, lock_timeout_seconds=lock_timeout_seconds)
    return store


def open_store(url: str, *, lock_timeout_seconds: float = JUDGE_LOCK_TIMEOUT_SECONDS) -> Store:
    """Open a ledger that exists; nothing is created or migrated.

    `lock_timeout_seconds` is how long a write waits for other writers before it raises `Busy`. Raises
    `NoInput`, `BadData`, `IOFailure`, `Denied`, `StoreUnavailable`, `Misuse`.
    """
    where = locate(url)
    if isinstance(where, SQLiteLocation):
        from .sqlite import open_sqlite

        return open_sqlite(where, lock_timeout_seconds=lock_timeout_seconds)
    store: Store = _postgres(where).open_postgres(where, lock_timeout_seconds=lock_timeout_seconds)
    return store


def _postgres(where: PostgresLocation) -> ModuleType:
    return postgres_module("postgres", where.shown)


__all__ = ["JUDGE_LOCK_TIMEOUT_SECONDS", "display", "found", "open_store"]
