"""Store URLs: what they name, and that what is shown of them holds no password."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from causebook.adapters.store.location import PostgresLocation, SQLiteLocation, locate
from causebook.adapters.store.url import display, found, open_store
from causebook.domain.errors import Misuse

SECRET = "s3cr3t"


def test_a_sqlite_url_is_relative_with_three_slashes_and_absolute_with_four(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    relative = locate("sqlite:///sub/a.db")
    absolute = locate(f"sqlite:///{tmp_path}/sub/a.db")
    assert isinstance(relative, SQLiteLocation)
    assert isinstance(absolute, SQLiteLocation)
    assert relative.path == absolute.path == tmp_path / "sub" / "a.db"


def test_a_path_is_taken_literally(tmp_path: Path) -> None:
    where = locate(f"sqlite:///{tmp_path}/a?b#c%20d é.db")
    assert isinstance(where, SQLiteLocation)
    assert where.path.name == "a?b#c%20d é.db"
    assert where.uri("mode=rw").endswith("/a%3Fb%23c%2520d%20%C3%A9.db?mode=rw")


def test_every_name_of_a_file_is_the_same_location(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    os.symlink(tmp_path / "real", tmp_path / "link")
    one, other = (locate(f"sqlite:///{tmp_path}/{name}/a.db") for name in ("real", "link"))
    assert isinstance(one, SQLiteLocation)
    assert isinstance(other, SQLiteLocation)
    assert one.path == other.path


@pytest.mark.parametrize(
    "url",
    [
        "",
        "ledger.db",
        "sqlite://",
        "sqlite:///",
        "sqlite://host/a.db",
        "sqlite:///:memory:",
        "sqlite:///a\0b",
        "mysql://host/a",
        "postgresql://",
        "postgresql:///database",
        "postgresql://host",
        "postgresql://host/",
        "postgresql://host:port/database",
        "postgresql://host/database?sslmode",
        "postgresql://host/database#fragment",
        "postgresql://host/data\0base",
    ],
)
def test_what_is_no_store_url_is_misuse(url: str) -> None:
    for call in (found, open_store):
        with pytest.raises(Misuse) as caught:
            call(url)
        assert "\n" not in caught.value.message


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        (
            "postgresql://ann:p%40ss%2F@db.example:6543/ledger?sslmode=require",
            {
                "host": "db.example",
                "port": "6543",
                "dbname": "ledger",
                "user": "ann",
                "password": "p@ss/",
                "sslmode": "require",
            },
        ),
        ("postgres://h/l", {"host": "h", "port": "5432", "dbname": "l"}),
        ("postgresql://u@[::1]:1/l", {"host": "::1", "port": "1", "dbname": "l", "user": "u"}),
        ("postgresql:///l?host=/run/pg", {"host": "/run/pg", "port": "5432", "dbname": "l"}),
        ("postgresql://%2Frun%2Fpg/l", {"host": "/run/pg", "port": "5432", "dbname": "l"}),
        (
            "postgresql://u:a@b@h/l",
            {"host": "h", "port": "5432", "dbname": "l", "user": "u", "password": "a@b"},
        ),
    ],
)
def test_a_postgres_url_is_read_by_its_parts(url: str, expected: dict[str, str]) -> None:
    where = locate(url)
    assert isinstance(where, PostgresLocation)
    assert dict(where.conninfo) == expected


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (f"postgresql://ann:{SECRET}@host:1/l", "postgresql://ann@host:1/l"),
        (f"postgres://ann:{SECRET}@host/l?sslmode=off", "postgres://ann@host/l?sslmode=off"),
        (f"postgresql://host/l?password={SECRET}", "postgresql://host/l"),
        (f"postgresql://host/l?a=1&password={SECRET}&b=2", "postgresql://host/l?a=1&b=2"),
        (f"postgresql://host/l?sslpassword={SECRET}", "postgresql://host/l"),
        (f"postgresql://host/l?%70assword={SECRET}", "postgresql://host/l"),
        (f"postgresql://ann:{SECRET}@x@host/l", "postgresql://ann@host/l"),
        (f"postgresql://ann:a/{SECRET}@host/l", "postgresql://…"),
        (f"postgresql://ann:12/{SECRET}@host/l", "postgresql://…"),
        (f"postgresql://ann:a?{SECRET}@host/l", "postgresql://…"),
        (f"postgresql://ann:a#{SECRET}@host/l", "postgresql://…"),
        (f"postgresql://ann:a@b/{SECRET}@host/l", "postgresql://…"),
        (f"postgresql://{SECRET}@x@host/l", "postgresql://…"),
        (f"postgresql://host/l?PASSWORD={SECRET}&a=1", "postgresql://host/l?a=1"),
        (f"postgresql://host/l?passwd={SECRET}", "postgresql://host/l"),
        (f"postgresql://host/l?pwd={SECRET}", "postgresql://host/l"),
        (f"mysql://ann:{SECRET}@host/l", "mysql://…"),
        (f"POSTGRESQL://ann:{SECRET}@host/l", "POSTGRESQL://…"),
        (f"ann:{SECRET}@host://l", "…"),
        (f"postgresql:/ann:{SECRET}@host/l", "…"),
        (f"postgresql:ann:{SECRET}@host/l", "…"),
        (f"ann:{SECRET}@host/l", "…"),
        (f"host=db password={SECRET}", "…"),
        (f"host/l?password={SECRET}", "…"),
        (f"sqlite://ann:{SECRET}@host/l", "sqlite://…"),
        (f"sqlite:/ann:{SECRET}@host/l", "…"),
        ("ledger.db", "ledger.db"),
        ("/var/lib/a.db", "/var/lib/a.db"),
        ("sqlite://ledger.db", "sqlite://ledger.db"),
        ("sqlite:////var/a@b:c?password=x.db", "sqlite:////var/a@b:c?password=x.db"),
    ],
)
def test_what_is_shown_of_a_url_holds_no_password(url: str, shown: str) -> None:
    assert display(url) == shown
    assert SECRET not in _told(url)


def test_an_error_of_the_server_names_no_secret_by_whatever_option() -> None:
    where = PostgresLocation("x", {"PassWord": SECRET, "sslpassword": "", "host": "h"})
    assert where.clean(f"no {SECRET}\nhere") == "no *** here"


def _told(url: str) -> str:
    try:
        where = locate(url)
    except Misuse as error:
        return error.message + error.hint + repr(error)
    return repr(where) + where.shown
