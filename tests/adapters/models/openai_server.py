"""A real HTTP server on the loopback that answers as a provider with OpenAI's chat API does, and worse.

    with OpenAIServer() as server:
        server.script = [error(429, headers={"Retry-After": "1"}), answer("fine")]
        ...  # a client of `server.url` asks twice
        assert server.received[0].json["model"] == "judge"

`script` holds the replies in the order they are given; a request beyond its end gets a 500 that says so.
`received` holds the requests that came, in order. Command-line tests use it too: point `OPENAI_API_BASE` at
`url` and set any `OPENAI_API_KEY`.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Literal

Misbehaviour = Literal["", "hang", "drip", "drip_headers", "cut"]


@dataclass(frozen=True)
class Reply:
    """One reply. `body` goes out as it is. An empty header is left out, `Content-Length` included.

    `misbehaviour`: `hang` says nothing at all; `drip` sends the body, and `drip_headers` everything, a byte
    at a time; `cut` announces the body whole and hangs up in the middle of it.
    """

    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    misbehaviour: Misbehaviour = ""
    drip_seconds: float = 0.02


@dataclass(frozen=True)
class Received:
    """One request as it came. The names of headers are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def tool_call(name: str, arguments: Any, *, id: str | None = "call_1") -> dict[str, Any]:
    """One call as it stands in a message; `arguments` that are no text become JSON text."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"id": id, "type": "function", "function": {"name": name, "arguments": text}}


def verdict(severity: str, justification: str = "because", *, id: str = "call_1") -> dict[str, Any]:
    """A call of `submit_verdict`."""
    arguments = {"severity": severity, "justification": justification}
    return tool_call("submit_verdict", arguments, id=id)


def completion(message: Any, **fields: Any) -> dict[str, Any]:
    """A chat completion around `message`; `fields` replace those of the completion or its choice."""
    choice = {"index": 0, "message": message, "finish_reason": fields.pop("finish_reason", "stop")}
    document = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_790_000_000,
        "model": "judge-2026-01-01",
        "choices": [choice],
        "usage": {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18},
    }
    return {**document, **fields}


def answer(content: Any = None, calls: Sequence[Any] | None = None, **fields: Any) -> Reply:
    """A reply with an assistant's message."""
    message: dict[str, Any] = {"role": "assistant", "content": content}
    if calls is not None:
        message["tool_calls"] = list(calls)
    return body(completion(message, **fields))


def body(document: Any, **reply: Any) -> Reply:
    """A reply whose body is `document` as JSON, lone surrogates as escapes."""
    return Reply(json.dumps(document).encode(), **reply)


def error(status: int, message: str = "no", *, headers: Mapping[str, str] | None = None) -> Reply:
    """A reply with an error as OpenAI words it."""
    document = {"error": {"message": message, "type": "some_error", "param": None, "code": None}}
    return Reply(json.dumps(document).encode(), status, headers or {})


class OpenAIServer:
    """The server: started on entering, stopped on leaving, whatever its clients are doing."""

    def __init__(self) -> None:
        self.script: list[Reply] = []
        self.received: list[Received] = []
        self.stopping = threading.Event()
        self._lock = threading.Lock()
        self._http = _Http(self)
        self._thread = threading.Thread(
            target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )

    @property
    def root(self) -> str:
        """The address without a path: what providers of other dialects are given as their base."""
        return f"http://127.0.0.1:{self._http.server_port}"

    @property
    def url(self) -> str:
        """The address to give as `api_base`."""
        return f"{self.root}/v1"

    def next_reply(self, received: Received) -> Reply:
        with self._lock:
            self.received.append(received)
            if self.script:
                return self.script.pop(0)
        return error(500, "the test's script has ended")

    def __enter__(self) -> OpenAIServer:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stopping.set()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()


class _Http(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, owner: OpenAIServer) -> None:
        self.owner = owner
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hung up is no news."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Http

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def _serve(self) -> None:
        length = int(self.headers.get("Content-Length", "0"))
        headers = {name.lower(): value for name, value in self.headers.items()}
        received = Received(self.command, self.path, headers, self.rfile.read(length))
        reply = self.server.owner.next_reply(received)
        with contextlib.suppress(ConnectionError):
            self._send(reply)

    def _send(self, reply: Reply) -> None:
        headers = {
            "Content-Type": "application/json",
            "Content-Length": str(len(reply.body)),
            **reply.headers,
        }
        head = f"HTTP/1.1 {reply.status} X\r\n"
        head += "".join(f"{name}: {value}\r\n" for name, value in headers.items() if value) + "\r\n"
        match reply.misbehaviour:
            case "hang":
                self.close_connection = True
                self.server.owner.stopping.wait()
            case "drip_headers":
                self._drip(head.encode(), reply.drip_seconds)
            case "drip":
                self.wfile.write(head.encode())
                self._drip(reply.body, reply.drip_seconds)
            case "cut":
                self.wfile.write(head.encode() + reply.body[: len(reply.body) // 2])
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)
            case _:
                self.wfile.write(head.encode() + reply.body)

    def _drip(self, data: bytes, seconds: float) -> None:
        self.close_connection = True
        for byte in data:
            if self.server.owner.stopping.wait(seconds):
                return
            self.wfile.write(bytes([byte]))
