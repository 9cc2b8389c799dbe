"""What one try really sent over HTTP and what really came back, and the limits it is held to.

litellm rewrites what it hears: it makes up statuses (408 for a timeout, 500 for a cut line), takes a 400 that
mentions a rate limit for a 429, turns one kind of 400 into an empty answer, repairs calls, and for some error
texts silently asks again with other messages. The ledger has to hold what happened. So the HTTP client handed
to litellm reports to the `Exchange` of the try under way, through httpx's public event hooks:

- one request to one address a try: a second is stopped before it leaves, and so is following a redirect;
- at most `RESPONSE_BYTES_MAX` of body, counted as they arrive, of an error's the first 64 KiB; a compressed
  body is asked not to be sent and is refused, since a few bytes of it can unfold into any number;
- litellm is shown a body only where it has to translate it, and then at most `TRANSLATED_BYTES_MAX`: its
  reading takes up to 800 times the memory of what it reads [7 GiB and minutes for 9 MiB of `{}`]. Of an
  answer in OpenAI's dialect, which is read from the bytes, it gets a stand-in with the tokens counted (and so
  do callbacks that a program around us has set in litellm);
- a connection is used once: a kept one can be dead by the next turn, which would cost a try, and all sockets
  of a try are known, so that giving up can cut them.

Outside of a try (another user of litellm in this process) the client is an ordinary one, but that it follows
no redirects and keeps no connections.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from typing import Any, Final

import httpx

from .message import count

RESPONSE_BYTES_MAX: Final = 32 * 1024 * 1024
TRANSLATED_BYTES_MAX: Final = 2 * 1024 * 1024
_ERROR_BYTES_MAX: Final = 64 * 1024
_CREDENTIAL_HEADERS: Final = ("authorization", "api-key", "x-api-key", "x-goog-api-key")


class Refused(httpx.RequestError):
    """This try was stopped by a limit of ours; `Exchange.refused` says which."""


class Exchange:
    """One try, as the HTTP client saw it. Written by the thread that asks, read once `finished` is set.

    `requests`: how many were sent. `status`, `headers` and `body` are those of the last response, `status`
    None where none came; `complete`: its body came whole, or as much of it as an error needs; `document`:
    the JSON that a success spells, if any. `refused`: the limit that stopped the try, or "". `secrets`: what
    the request carried as credentials. `answer` or `failure` is what the library made of it.
    """

    def __init__(self) -> None:
        self.finished = threading.Event()
        self.requests = 0
        self.status: int | None = None
        self.headers: Mapping[str, str] = {}
        self.body = bytearray()
        self.complete = False
        self.document: Any = None
        self.refused = ""
        self.secrets: set[str] = set()
        self.answer: Any = None
        self.failure: BaseException | None = None
        self._sent: set[tuple[str, str]] = set()
        self._sockets: list[socket.socket] = []
        self._lock = threading.Lock()
        self._given_up = False

    def give_up(self) -> None:
        """Cut what is still open; what the try would do from here on is refused."""
        with self._lock:
            self._given_up = True
            for open_socket in self._sockets:
                with contextlib.suppress(OSError):  # closed already, or never connected
                    open_socket.shutdown(socket.SHUT_RDWR)

    def sending(self, request: httpx.Request) -> None:
        """Called before a request leaves. Raises `Refused`."""
        target = (request.method, str(request.url))
        if target in self._sent:
            self._refuse("the client library tried to ask twice")
        self._sent.add(target)
        self.requests += 1
        self.status, self.headers, self.complete, self.document = None, {}, False, None
        self.body.clear()
        for name in _CREDENTIAL_HEADERS:
            value = request.headers.get(name, "")
            self.secrets.update((value, value.rpartition(" ")[2]))
        request.headers["accept-encoding"] = "identity"
        request.extensions = {**request.extensions, "trace": self._trace}

    def receiving(self, response: httpx.Response) -> None:
        """Called when status and headers are in. Reads the body. Raises `Refused`."""
        self.status = response.status_code
        self.headers = response.headers
        if response.has_redirect_location:
            self._refuse("the provider answered with a redirect")
        if response.headers.get("content-encoding", "identity").strip().lower() != "identity":
            self._refuse("the answer is compressed, though that was declined")
        stream: Any = response.stream
        try:
            shown = self._success(stream) if response.is_success else self._error(stream)
        finally:
            stream.close()
        response.stream = httpx.ByteStream(shown)

    def _success(self, stream: Iterable[bytes]) -> bytes:
        """Read the body of a success; what the library is to see of it."""
        for chunk in stream:
            if len(self.body) + len(chunk) > RESPONSE_BYTES_MAX:
                self._refuse(f"the answer is longer than {RESPONSE_BYTES_MAX} bytes")
            self._take(chunk)
        self.complete = True
        with contextlib.suppress(ValueError, RecursionError):  # no JSON: then it has no document
            self.document = json.loads(self.body)
        if not isinstance(self.document, dict):
            return b"{}"
        if "choices" in self.document:
            return _stand_in(self.document)
        if len(self.body) > TRANSLATED_BYTES_MAX:
            self._refuse(f"the answer to translate is longer than {TRANSLATED_BYTES_MAX} bytes")
        return bytes(self.body)

    def _error(self, stream: Iterable[bytes]) -> bytes:
        """Read the beginning of an error's body; the library sees none of it, and so acts on none."""
        for chunk in stream:
            self._take(chunk)
            if len(self.body) > _ERROR_BYTES_MAX:
                break
        self.complete = True
        return b"{}"

    def _take(self, chunk: bytes) -> None:
        if self._given_up:
            self._refuse("the time is up")
        self.body += chunk

    def _refuse(self, why: str) -> None:
        self.refused = self.refused or why
        # Whoever waits is told now: the library may yet sleep and try some more, in vain.
        self.finished.set()
        raise Refused(why)

    def _trace(self, event: str, info: Mapping[str, Any]) -> None:
        if event not in ("connection.connect_tcp.complete", "connection.start_tls.complete"):
            return
        opened = info["return_value"].get_extra_info("socket")
        with self._lock:
            if opened is not None:
                self._sockets.append(opened)
            late = self._given_up
        if late:
            self._refuse("the time is up")


def _stand_in(document: Mapping[str, Any]) -> bytes:
    """An answer for the library to read in place of `document`: no text, no calls, the same tokens."""
    usage = document.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    names = ("prompt_tokens", "completion_tokens", "total_tokens")
    message = {"role": "assistant", "content": ""}
    stand_in = {
        "object": "chat.completion",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {name: count(usage.get(name)) or 0 for name in names},
    }
    return json.dumps(stand_in).encode()


CURRENT: Final[ContextVar[Exchange | None]] = ContextVar("causebook_exchange", default=None)
"""The try that this thread is about, or None outside of one."""


class _Lent(httpx.Client):
    """A client that its borrowers cannot close, as some of litellm's do when they are collected."""

    def close(self) -> None:
        """Nothing: no connection outlives its try, so there is nothing to release."""


def reporting_client() -> httpx.Client:
    """An HTTP client that reports to `CURRENT`; proxies and certificates as the environment sets them."""

    def on_request(request: httpx.Request) -> None:
        if (exchange := CURRENT.get()) is not None:
            exchange.sending(request)

    def on_response(response: httpx.Response) -> None:
        if (exchange := CURRENT.get()) is not None:
            exchange.receiving(response)

    return _Lent(
        event_hooks={"request": [on_request], "response": [on_response]},
        limits=httpx.Limits(max_connections=None, max_keepalive_connections=0),
        follow_redirects=False,
    )
