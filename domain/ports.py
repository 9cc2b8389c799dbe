"""What the law needs from the world, as values and protocols: no IO here.

`Model` answers a request, `Workspace` answers a read. The real ones are adapters; tests and engines bring
their own, honouring the same protocol.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class Request:
    """One call of a model: what is asked.

    `messages` and `tools` are as OpenAI's chat API takes them. `tool_choice` is the name of the one tool
    that must be called, or None where the model is free (and then nothing is sent, not "auto").
    """

    model: str
    messages: tuple[Mapping[str, Any], ...]
    tools: tuple[Mapping[str, Any], ...]
    tool_choice: str | None


@dataclass(frozen=True)
class ToolCall:
    """One call in a model's answer, as it came.

    `id` and `name` are data, never trusted: they may repeat, be missing (None and "") or hold anything.
    `arguments` is the argument text, unparsed. `was_object` says that an object stood where the text
    belongs; it was then written as JSON by the adapter.
    """

    id: str | None
    name: str
    arguments: str
    was_object: bool = False


@dataclass(frozen=True)
class Response:
    """One answer of a model, as it came, before any rule looks at it.

    Texts may hold anything a Python string can: lone surrogates, null bytes, megabytes. Tokens are None
    where the provider did not say. `milliseconds` is the wall time of the try that answered.
    `tool_choice_sent` is False where none was asked for, or the provider had declined it (rule 9).
    """

    content: str | None
    calls: tuple[ToolCall, ...] = ()
    model: str = ""
    finish_reason: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    milliseconds: int = 0
    tool_choice_sent: bool = False
    client: str = ""
    client_version: str = ""


class ModelFault(Exception):
    """One try that brought no answer.

    `error`: a short class name of ours: `timeout`, `connection`, `rate_limit`, `server`, `bad_request`,
    `auth`, `not_found`, `no_message`, `script_exhausted`, `other`. `status`: the HTTP status, where there
    was one. `retry_after_ms`: what the provider asked us to wait, in milliseconds. `retryable`: another
    try of the same request may work. `declines_tool_choice`: the request carried `tool_choice`, and the
    provider answered 400 or 422. `detail`: the provider's own words, hostile, kept as evidence.
    """

    def __init__(
        self,
        error: str,
        *,
        status: int | None = None,
        retry_after_ms: int | None = None,
        retryable: bool = False,
        declines_tool_choice: bool = False,
        detail: str = "",
    ) -> None:
        super().__init__(error)
        self.error = error
        self.status = status
        self.retry_after_ms = retry_after_ms
        self.retryable = retryable
        self.declines_tool_choice = declines_tool_choice
        self.detail = detail


class Model(Protocol):
    """A model behind one call. Blocking; thread-safe is not asked for: each judge has its own."""

    def complete(self, request: Request) -> Response:
        """One try. Raises `ModelFault`; never retries by itself, never drops a parameter."""
        ...


@dataclass(frozen=True)
class ReadResult:
    """What a read tool answered.

    `text` goes to the model. `lines` are the first and last line it holds, counted from 1, both included,
    for `read_file` and `read_file_lines` where it succeeded and the file is not empty, else None. `cut`:
    the answer was shortened to its limit (and `text` says so). `error`: the tool failed, and `text` says
    why. `blob`: the git blob id of the file read, where it is tracked and clean.
    """

    text: str
    lines: tuple[int, int] | None = None
    cut: bool = False
    error: bool = False
    blob: str | None = None


class Workspace(Protocol):
    """A working tree that answers reads."""

    def read(self, tool: str, arguments: Mapping[str, Any]) -> ReadResult:
        """Answer one read with normalised arguments that fit the tool. Never raises for bad input."""
        ...


@dataclass(frozen=True)
class WorkspaceState:
    """What a working tree was when it was judged.

    `root`: its absolute path. `commit`: hex id of HEAD, None outside git or before a first commit.
    `tree`: digest of the files, 64 hex, where the tree is dirty or not in git; else None.
    """

    root: str
    commit: str | None
    tree: str | None
    dirty: bool
