"""A witness over HTTP (C2SP tlog-witness, commit 055270b59289).

    POST /add-checkpoint                            200, 400, 403, 404, 409, 422, as that text has them
    GET  /<sha256 of the origin, hex>/checkpoint    200 with the newest checkpoint cosigned, 404 for none

The second is ours: the text leaves retrieval open. Both are of one prefix, the root.

409 has the size of the newest checkpoint cosigned as `text/x.tlog.size`, also where sizes agree and roots do
not; every other refusal is one line of text. Beside the text's codes stand those of HTTP itself: 405, 411,
413, 414, 431, 500, 501, 503, 505.

A client is given 30 seconds for a request, whole, from when the connection is free for it, and 176 KiB;
64 clients are served at a time, and one more is told 503. A connection is kept for the next request, but
after an answer to something that was not read to its end.
"""

from __future__ import annotations

import errno
import http.client
import io
import socket
import socketserver
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from ...domain.errors import Busy, CausebookError, Denied, Misuse
from ...domain.proof import PROOF_BYTES_MAX
from ...domain.streams import shorten
from ..deadline import DeadlineReader
from .state import Conflict, Cosigned, Witness

REQUEST_SECONDS: Final = 30.0
CONNECTIONS_MAX: Final = 64
_HEAD_BYTES_MAX: Final = 16 * 1024
_TEXT: Final = "text/plain; charset=utf-8"


class WitnessServer(ThreadingHTTPServer):
    """A witness that listens at `host`:`port`; port 0 is any that is free.

    `say` is told, in one line, what was cosigned and what was refused. Raises `Busy` where the port is taken,
    `Denied` where it may not be used, `Misuse` where the host is not one of this machine.
    """

    daemon_threads = True

    def __init__(
        self,
        witness: Witness,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        say: Callable[[str], None] = lambda line: None,
        request_seconds: float = REQUEST_SECONDS,
        connections_max: int = CONNECTIONS_MAX,
    ) -> None:
        self.witness = witness
        self.say = say
        self.request_seconds = request_seconds
        self._places = threading.BoundedSemaphore(connections_max)
        if ":" in host:
            self.address_family = socket.AF_INET6
        try:
            super().__init__((host, port), _Handler)
        except (OSError, OverflowError) as error:
            raise _not_listening(host, port, error) from None

    @property
    def url(self) -> str:
        """Where it answers: the prefix, without a slash at its end."""
        host, port = self.server_address[:2]
        return f"http://[{host!s}]:{port}" if ":" in str(host) else f"http://{host!s}:{port}"

    def server_bind(self) -> None:
        # That of HTTPServer asks the name service who we are, which can take as long as it likes.
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = "causebook-witness", int(self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._places.acquire(blocking=False):
            try:
                super().process_request(request, client_address)
            except BaseException:
                self._places.release()
                raise
            return
        request.settimeout(1.0)
        try:
            request.sendall(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        except OSError:
            pass
        finally:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        # Reached by what no handler named: told in one line, and the server goes on.
        self.say(f"internal: {type(sys.exc_info()[1]).__name__}")


class _Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    server_version = "causebook"
    sys_version = ""
    server: WitnessServer

    def setup(self) -> None:
        super().setup()
        self.rfile.close()
        self._reader = DeadlineReader(self.connection, seconds=0, bytes_max=0)
        self.rfile = io.BufferedReader(self._reader)

    def handle_one_request(self) -> None:
        self._reader.begin(
            seconds=self.server.request_seconds, bytes_max=_HEAD_BYTES_MAX + PROOF_BYTES_MAX
        )
        try:
            super().handle_one_request()
        except OSError:  # too slow, too much, or gone: there is nobody to answer
            self.close_connection = True

    def do_POST(self) -> None:
        if self.path != "/add-checkpoint":
            self._refuse(404, "expected POST /add-checkpoint")
            return
        body = self._body()
        if body is None:
            return
        try:
            answer = self.server.witness.submit(body)
        except CausebookError as error:
            self.server.say(error.message)
            self._refuse(
                503 if isinstance(error, Busy) else 500, "the witness cannot keep its state"
            )
            return
        if isinstance(answer, Cosigned):
            self.server.say(f"cosigned size {answer.size}")
            self._answer(200, _TEXT, answer.line.encode())
        elif isinstance(answer, Conflict):
            self.server.say(f"409: {answer.why}")
            self._answer(409, "text/x.tlog.size", f"{answer.size}\n".encode())
        else:
            self.server.say(f"{answer.status}: {answer.why}")
            self._answer(answer.status, _TEXT, f"{answer.why}\n".encode())

    def do_GET(self) -> None:
        name, _, rest = self.path[1:].partition("/")
        origin = self.server.witness.origins.get(name)
        if self.path == "/add-checkpoint":
            self._refuse(405, "expected POST")
            return
        try:
            found = None if origin is None else self.server.witness.shown(origin)
        except CausebookError as error:
            self.server.say(error.message)
            self._refuse(
                503 if isinstance(error, Busy) else 500, "the witness cannot read its state"
            )
            return
        if found is None or rest != "checkpoint":
            self._refuse(404, "no checkpoint is here")
            return
        self._answer(200, _TEXT, found.note.raw)

    def _body(self) -> bytes | None:
        """The body of a request; None where it was refused for its length."""
        lengths = self.headers.get_all("Content-Length", [])
        if len(lengths) != 1 or "Transfer-Encoding" in self.headers:
            self._refuse(411, "expected one Content-Length")
            return None
        told = lengths[0].strip()
        if not (told.isascii() and told.isdecimal() and len(told) <= 16):
            self._refuse(400, "expected a Content-Length in decimal")
            return None
        if int(told) > PROOF_BYTES_MAX:
            self._refuse(413, f"expected at most {PROOF_BYTES_MAX} bytes")
            return None
        body = self.rfile.read(int(told))
        if len(body) != int(told):
            self.close_connection = True
            return None
        return body

    def _refuse(self, status: int, why: str) -> None:
        # What is left of the request must not be taken for the next.
        self.close_connection = True
        self._answer(status, _TEXT, f"{why}\n".encode())

    def _answer(self, status: int, content_type: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer what `http.server` itself refuses, in text as we do."""
        self.close_connection = True
        self.request_version = "HTTP/1.1"  # or a request that was not understood gets no head
        phrase = http.client.responses.get(code, "") if message is None else message
        self._answer(code, _TEXT, f"{shorten(phrase)}\n".encode())

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: what was decided is said where it is decided."""


def _not_listening(host: str, port: int, error: Exception) -> CausebookError:
    where = f"{host}:{port}"
    if isinstance(error, OverflowError):
        return Misuse(f"--listen: expected a port from 0 to 65535, found {port}")
    if isinstance(error, PermissionError):
        return Denied(
            f"{where}: this user may not listen here", hint="ports from 1024 are free to all"
        )
    if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
        return Busy(
            f"{where}: something listens here already", hint="--listen HOST:PORT names another"
        )
    return Misuse(
        f"{where}: cannot listen here: {getattr(error, 'strerror', None) or error}",
        hint="--listen HOST:PORT, HOST being an address of this machine; 127.0.0.1 is",
    )
