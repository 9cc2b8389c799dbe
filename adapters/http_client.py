"""One HTTP request to another party: bounded in time and in bytes, and to the host that was named.

No redirect is followed and no proxy is asked, so what answers is what the URL names. HTTPS certificates are
checked against the system's roots. What goes wrong is an `Unreachable` with one line.
"""

from __future__ import annotations

import http.client
import io
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from ..domain.errors import Misuse, StoreUnavailable
from ..domain.streams import shorten
from .deadline import DeadlineReader, TooMuch

SECONDS: Final = 15.0
"""How long connecting may take, and then the answer, whole."""

_HEAD_BYTES_MAX: Final = 32 * 1024
_URL = re.compile(r"[\x21-\x7e]{1,2048}")


class Unreachable(StoreUnavailable):
    """The other party does not answer, or not with what its protocol asks for."""


class Address(NamedTuple):
    """Where an http or https URL leads. `path` begins with a slash."""

    is_https: bool
    host: str
    port: int
    path: str


@dataclass(frozen=True)
class Response:
    """An answer. `content_type`: without its parameters, in lower case."""

    status: int
    content_type: str
    body: bytes


def address_of(url: str, *, what: str) -> Address:
    """Where a URL leads. Raises `Misuse` for one that is not http or https, or carries more than a path."""
    try:
        parts = urlsplit(url) if _URL.fullmatch(url) else None
        port = parts.port if parts is not None else None
    except ValueError:
        parts = None
    if (
        parts is None
        or parts.scheme not in ("http", "https")
        or not parts.hostname
        or "@" in parts.netloc
        or "?" in url
        or "#" in url
        or port == 0
    ):
        raise Misuse(
            f"{what}: expected http://HOST[:PORT][/PATH] or https://…, found {shorten(url)}",
            hint="in ASCII, without a user, a query or a fragment",
        )
    is_https = parts.scheme == "https"
    return Address(is_https, parts.hostname, port or (443 if is_https else 80), parts.path or "/")


def request(
    method: str,
    address: Address,
    *,
    what: str,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    bytes_max: int,
    seconds: float = SECONDS,
) -> Response:
    """Ask once, and read the answer whole. `what` names the other party in errors.

    Raises `Unreachable` where none comes within `seconds`, or one of more than `bytes_max` bytes.
    """
    kind = http.client.HTTPSConnection if address.is_https else http.client.HTTPConnection
    connection = kind(address.host, address.port, timeout=seconds)
    connection.response_class = _within(seconds, bytes_max)
    where = f"{what} at {_shown(address)}"
    try:
        connection.request(method, address.path, body, {"Accept": "*/*", **(headers or {})})
        response = connection.getresponse()
        content = response.read(bytes_max + 1)
        if len(content) > bytes_max:
            raise TooMuch
        if response.length:  # what was announced and did not come; http.client does not tell
            raise http.client.IncompleteRead(content, response.length)
        told = response.getheader("Content-Type", "").partition(";")[0].strip().lower()
        return Response(response.status, told, content)
    except TooMuch:
        raise Unreachable(
            f"{where}: expected an answer of at most {bytes_max} bytes, found more"
        ) from None
    except TimeoutError:
        raise Unreachable(f"{where}: no whole answer within {seconds:g} seconds") from None
    except (OSError, ValueError, http.client.HTTPException) as error:  # a chunk of length -5
        raise Unreachable(f"{where}: {_told(error)}") from None
    finally:
        connection.close()


def _within(seconds: float, bytes_max: int) -> type[http.client.HTTPResponse]:
    """A response that is read within one span of time, head and body together."""

    class Within(http.client.HTTPResponse):
        def __init__(self, sock: socket.socket, *args: object, **options: object) -> None:
            super().__init__(sock, *args, **options)  # type: ignore[arg-type]
            self.fp.close()
            reader = DeadlineReader(sock, seconds=seconds, bytes_max=_HEAD_BYTES_MAX + bytes_max)
            self.fp = io.BufferedReader(reader)

    return Within


def _shown(address: Address) -> str:
    host = f"[{address.host}]" if ":" in address.host else address.host
    return f"{host}:{address.port}"


def _told(error: Exception) -> str:
    if isinstance(error, socket.gaierror | UnicodeError):
        return "no host of this name is known"
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    return f"not an answer in HTTP: {type(error).__name__}"
