"""Where a ledger is: a store URL, read once, and shown without its password.

    sqlite:///ledger.db                  a file, relative to the working directory
    sqlite:////var/lib/causebook/a.db    a file, absolute
    postgresql://user@host:5432/name     the schema `causebook` of a PostgreSQL database (`postgres://` too)

A SQLite path is what follows the third slash, literally: no escapes and no query, so that `?`, `#`, `%`
and blanks in a file name need no care. A PostgreSQL URL has the parts that libpq knows (percent-encoded,
options in the query) and has to name host and database, so that no `PGHOST` in the environment moves the
ledger; a password may as well come from libpq's own `PGPASSWORD` or password file.
"""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from urllib.parse import parse_qsl, quote, unquote

from ...domain.errors import Misuse

_POSTGRES_SCHEMES = ("postgresql", "postgres")
_SECRET = re.compile("pass|pwd|secret|token", re.IGNORECASE)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,30}")
# A path or a name, with nothing that leads in a password.
_PLAIN = re.compile(r"[^@:?=]*")
_FORMS = "use sqlite:///FILE or postgresql://USER@HOST/DATABASE"


@dataclass(frozen=True)
class SQLiteLocation:
    """A file. `path` is absolute with its links resolved, so that every name of it has the same locks."""

    shown: str
    path: Path

    def uri(self, query: str) -> str:
        """The SQLite URI of the file, percent-encoded byte by byte, with `query` (`mode=rw`)."""
        return file_uri(self.path, query)


@dataclass(frozen=True)
class PostgresLocation:
    """A database. `conninfo` has libpq's keywords, the password among them, and stays out of `repr`."""

    shown: str
    conninfo: Mapping[str, str] = field(repr=False)

    def clean(self, text: str) -> str:
        """`text` on one line, without any secret that the URL holds."""
        for key, value in self.conninfo.items():
            if value and _is_secret(key):
                text = text.replace(value, "***")
        line = " ".join(text.split())
        return line if len(line) <= 400 else line[:400] + "…"


Location = SQLiteLocation | PostgresLocation


def file_uri(path: Path, query: str) -> str:
    return f"file:{quote(os.fsencode(path))}?{query}"


def locate(url: str) -> Location:
    """Read a store URL. Raises `Misuse`, whose message never quotes a password."""
    scheme, separator, rest = url.partition("://")
    if separator and scheme == "sqlite":
        return _sqlite(url, rest)
    if separator and scheme in _POSTGRES_SCHEMES:
        return _postgres(scheme, rest)
    found = repr(display(url)) if url else "nothing"
    raise Misuse(f"the ledger: expected the URL of a store, found {found}", hint=_FORMS)


def display(url: str) -> str:
    """The URL as it may be printed: without a password, wherever in the URL it stands.

    Of what is not understood nothing is shown that could hold one.
    """
    scheme, separator, rest = url.partition("://")
    if not separator:
        return url if _PLAIN.fullmatch(url) else "…"
    if scheme == "sqlite":
        return url if rest.startswith("/") or _PLAIN.fullmatch(rest) else "sqlite://…"
    if scheme not in _POSTGRES_SCHEMES:
        return f"{scheme}://…" if _SCHEME.fullmatch(scheme) else "…"
    authority, tail = _split_authority(rest)
    userinfo, at, host = authority.rpartition("@")
    user = userinfo.partition(":")[0]
    if "@" in tail or "@" in user or not _is_host(host):
        # An unescaped "/" or "@" in a password: the rest cannot be told from a secret.
        return f"{scheme}://…"
    path, mark, query = tail.partition("?")
    if mark:
        kept = [item for item in query.split("&") if not _is_secret(item.partition("=")[0])]
        path = "?".join([path, "&".join(kept)]) if kept else path
    return f"{scheme}://{user}{at}{host}{path}"


def _is_secret(option: str) -> bool:
    """Whether an option, as a URL names it, may be a password: also one that libpq does not know."""
    return _SECRET.search(unquote(option)) is not None


def _sqlite(url: str, rest: str) -> SQLiteLocation:
    name = rest.removeprefix("/")
    if not rest.startswith("/") or not name or "\0" in name or name == ":memory:":
        raise Misuse(
            f"the ledger: expected sqlite:/// and the path of a file, found {display(url)!r}",
            hint=_FORMS,
        )
    return SQLiteLocation(shown=name, path=Path(os.path.realpath(name)))


def _postgres(scheme: str, rest: str) -> PostgresLocation:
    shown = display(f"{scheme}://{rest}")
    authority, tail = _split_authority(rest)
    userinfo, _, hostport = authority.rpartition("@")
    if "#" in tail or "@" in tail or not _is_host(hostport):
        raise Misuse(f"{shown}: not a URL", hint="percent-encode / ? # @ and : in a password")
    host, port = _split_port(hostport)
    path, _, query = tail.partition("?")
    user, _, password = userinfo.partition(":")
    # The port is spelled out: left open, it would be taken from PGPORT.
    parts = {
        "host": unquote(host),
        "port": port or "5432",
        "dbname": unquote(path.removeprefix("/")),
    }
    parts |= {"user": unquote(user), "password": unquote(password)}
    try:
        options = dict(parse_qsl(query, strict_parsing=True)) if query else {}
    except ValueError:
        raise Misuse(f"{shown}: the part after ? is not KEY=VALUE&KEY=VALUE") from None
    conninfo = {key: value for key, value in parts.items() if value} | options
    if not conninfo.get("host") or not conninfo.get("dbname"):
        raise Misuse(f"{shown}: expected a host and the name of a database", hint=_FORMS)
    if any("\0" in value for value in conninfo.values()):
        raise Misuse(f"{shown}: NUL in a URL")
    return PostgresLocation(shown=shown, conninfo=conninfo)


def _split_authority(rest: str) -> tuple[str, str]:
    """What stands before the path, and the path with all that follows it."""
    end = min((at for at in map(rest.find, "/?#") if at >= 0), default=len(rest))
    return rest[:end], rest[end:]


def _split_port(hostport: str) -> tuple[str, str]:
    if hostport.startswith("["):
        host, _, port = hostport[1:].partition("]")
        return host, port.removeprefix(":")
    host, _, port = hostport.partition(":")
    return host, port


def _is_host(hostport: str) -> bool:
    if hostport.startswith("["):
        host, bracket, port = hostport[1:].partition("]")
        return bool(bracket and host) and (not port or (port[0] == ":" and port[1:].isdecimal()))
    host, colon, port = hostport.partition(":")
    return "@" not in host and (not colon or port.isdecimal())


__all__ = ["Location", "PostgresLocation", "SQLiteLocation", "display", "file_uri", "locate"]


def postgres_module(name: str, shown: str) -> ModuleType:
    """Import a module of this package that needs psycopg. Raises `Misuse` where that is not installed."""
    try:
        return importlib.import_module(f".{name}", __package__)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("psycopg", "psycopg_pool"):
            raise
    except ImportError as error:
        # psycopg is there without libpq.
        if "psycopg" not in str(error) and "libpq" not in str(error):
            raise
    raise Misuse(
        f"{shown}: PostgreSQL needs the extra 'postgres'",
        hint="install causebook with its extra 'postgres' (README, Install)",
    )
