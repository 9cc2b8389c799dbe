"""What the tests of the stores share: a founded store, and a way past it to the database underneath."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from causebook.adapters.store.port import Row, Store
from causebook.adapters.store.url import found
from tests.conftest import private_postgres as private_postgres_server


class RawDatabase:
    """The database under a store, through a plain connection: what an operator or an accident would use."""

    def __init__(self, connection: Any, errors: tuple[type[Exception], ...], prefix: str) -> None:
        self.connection = connection
        self.errors = errors
        self.prefix = prefix

    @property
    def is_sqlite(self) -> bool:
        return not self.prefix

    def run(self, statement: str, *values: object) -> list[Any]:
        """Run a statement; `{}` before a table stands for the schema, `?` for a value."""
        text = statement.replace("{}", self.prefix)
        cursor = self.connection.execute(
            text if self.is_sqlite else text.replace("?", "%s"), values
        )
        return [] if cursor.description is None else list(cursor.fetchall())


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    """A store with its schema and no record."""
    with contextlib.closing(found(store_url, lock_timeout_seconds=30)) as made:
        yield made


@pytest.fixture
def raw(store_url: str, store: Store) -> Iterator[RawDatabase]:
    """Autocommit, with SQLite's defaults: recursive_triggers is off."""
    if store_url.startswith("sqlite"):
        import sqlite3

        path = store_url.removeprefix("sqlite:///")
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
            yield RawDatabase(connection, (sqlite3.IntegrityError,), "")
    else:
        import psycopg

        with psycopg.connect(store_url, autocommit=True) as connection:
            yield RawDatabase(connection, (psycopg.IntegrityError,), "causebook.")


@pytest.fixture
def sqlite_path(tmp_path: Path) -> Path:
    """A path whose name has everything that a URI would take for something else."""
    folder = tmp_path / "mode=memory 100%"
    folder.mkdir()
    return folder / "état ?#%20:memory:.db"


@pytest.fixture
def python() -> Callable[..., subprocess.Popen[str]]:
    """Start `python -c SCRIPT ARGUMENT…`, with its output in a pipe."""

    def start(script: str, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-W", "error", "-c", script, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=None if not environment else {**dict(__import__("os").environ), **environment},
        )

    return start


@pytest.fixture
def read_only(tmp_path: Path) -> Iterator[Callable[[Path], Path]]:
    """Mount a folder a second time, read-only; as root, file modes would stop nothing."""
    mounted: list[Path] = []

    def mount(folder: Path) -> Path:
        point = tmp_path / f"read-only-{len(mounted)}"
        point.mkdir()
        done = subprocess.run(
            ["mount", "--bind", folder, point], capture_output=True, text=True, check=False
        )
        if done.returncode:
            pytest.skip(f"mounting is not permitted here: {done.stderr.strip()}")
        mounted.append(point)
        subprocess.run(["mount", "-o", "remount,bind,ro", point], check=True)
        return point

    if shutil.which("mount") is None:
        pytest.skip("there is no mount command here")
    yield mount
    for point in mounted:
        subprocess.run(["umount", point], check=True)


@pytest.fixture
def private_postgres() -> Any:
    return private_postgres_server


@pytest.fixture
def rows() -> Callable[..., list[Row]]:
    """`rows(stream, first, last)`: rows that follow one another."""

    def make(stream: str, first: int, last: int, mark: str = "") -> list[Row]:
        return [
            Row(stream, version, "TurnCharged", f"{stream}/{version}/{mark}\n".encode())
            for version in range(first, last + 1)
        ]

    return make
