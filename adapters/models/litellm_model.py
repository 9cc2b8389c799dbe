"""A live model, through litellm: one try a call, nothing dropped, nothing retried, nothing made up.

What is recorded is what came over the wire (`wire.py`). Where the provider speaks OpenAI's dialect (its body
has `choices`) the answer is read from those bytes, for litellm rewrites calls, texts and `finish_reason`;
for other dialects it is litellm's translation. A status is the provider's own; only where nothing was seen
(a provider whose traffic litellm does not send through our client) is it the one litellm names.

Time. litellm's timeout bounds each read alone, so a server that drips a byte a second is never late. Each try
therefore runs in a daemon thread that is waited for until `timeout_seconds` have passed on the wall; then its
sockets are cut and it is left behind. Importing litellm (6 s, once a process) is not counted.
"""

from __future__ import annotations

import importlib
import math
import os
import re
import threading
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from ...domain.ports import ModelFault, Request, Response
from .faults import error_by_status, fault, redact, retry_after, unix_seconds
from .litellm_library import library, provider, version
from .message import count, read_message, text_or_json

if TYPE_CHECKING:
    import httpx

    from .wire import Exchange

CLIENT: Final = "litellm"
CALLS_MAX: Final = 100_000
"""The most calls an answer may hold; with more it is taken for an attack, not an answer."""

_DETAIL_BYTES_MAX: Final = 65_536
# Providers that litellm asks through its own HTTP handler, which takes a client of ours for one call. The
# others go through OpenAI's client, which takes it from `litellm.client_session`.
_OWN_DIALECT: Final = frozenset({"anthropic", "gemini"})
_LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_SECRET_NAME: Final = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL", re.IGNORECASE)


class LiteLLMModel:
    """The model that litellm knows as `model`, for example `openai/gpt-4o`.

    `timeout_seconds` bounds one try on the wall clock. `api_base` and `api_key` are by default what litellm
    finds in the environment for the provider.
    """

    def __init__(
        self,
        model: str,
        *,
        timeout_seconds: float = 120.0,
        api_base: str | None = None,
        api_key: str | None = None,
    ) -> None:
        if not (math.isfinite(timeout_seconds) and timeout_seconds > 0):
            raise ValueError(f"timeout_seconds must be above 0, not {timeout_seconds}")
        self._model = model
        self._timeout_seconds = float(timeout_seconds)
        self._api_base = api_base
        self._api_key = api_key

    def complete(self, request: Request) -> Response:
        """One try. Raises `ModelFault`; `Misuse` where litellm is not installed.

        Raises `ValueError` where `request.model` names another model than this one: what the record says
        was asked must be what was asked.
        """
        if request.model != self._model:
            raise ValueError(f"a request for {request.model!r} was given to {self._model!r}")
        litellm, client = library()
        from .wire import Exchange

        exchange = Exchange()
        arguments = self._arguments(request, litellm, client)
        started = time.monotonic_ns()
        threading.Thread(
            target=_ask, args=(litellm, arguments, exchange), name="causebook-try", daemon=True
        ).start()
        try:
            in_time = exchange.finished.wait(self._timeout_seconds)
        finally:
            exchange.give_up()  # after the deadline, or Ctrl-C; nothing is open otherwise
        elapsed = (time.monotonic_ns() - started) // 1_000_000
        answer = self._answer(request, exchange, in_time)
        message = answer["choices"][0]["message"]
        content, calls = read_message(message)
        usage = answer.get("usage")
        usage = usage if isinstance(usage, Mapping) else {}
        return Response(
            content,
            calls,
            model=text_or_json(answer.get("model")) or "",
            finish_reason=text_or_json(answer["choices"][0].get("finish_reason")),
            prompt_tokens=count(usage.get("prompt_tokens")),
            completion_tokens=count(usage.get("completion_tokens")),
            milliseconds=elapsed,
            tool_choice_sent=request.tool_choice is not None,
            client=CLIENT,
            client_version=version(),
        )

    def _arguments(self, request: Request, litellm: Any, client: httpx.Client) -> dict[str, Any]:
        """What litellm is called with: copies, since it edits the messages it is given.

        It leaves out the fields of a message that are null, which means the same.
        """
        arguments: dict[str, Any] = {
            "model": self._model,
            "messages": _sendable(request.messages),
            "timeout": self._timeout_seconds,
            "num_retries": 0,
            "max_retries": 0,
            "drop_params": False,
            "caching": False,
        }
        if request.tools:
            arguments["tools"] = _sendable(request.tools)
        if request.tool_choice is not None:
            arguments["tool_choice"] = {
                "type": "function",
                "function": {"name": _sendable(request.tool_choice)},
            }
        if self._api_base is not None:
            arguments["api_base"] = self._api_base
        if self._api_key is not None:
            arguments["api_key"] = self._api_key
        if provider(litellm, self._model, self._api_base) in _OWN_DIALECT:
            handlers = importlib.import_module("litellm.llms.custom_httpx.http_handler")
            arguments["client"] = handlers.HTTPHandler(client=client)
        return arguments

    def _answer(self, request: Request, exchange: Exchange, in_time: bool) -> Mapping[str, Any]:
        """The answer as a chat completion that has a message. Raises `ModelFault`."""
        if exchange.status is not None and not 200 <= exchange.status <= 299:
            raise self._fault(request, exchange, error_by_status(exchange.status))
        if not in_time:
            raise self._fault(request, exchange, "timeout")
        if exchange.status is None:
            if exchange.requests:
                raise self._fault(request, exchange, _class_of(exchange.failure, "connection"))
            if exchange.failure is not None:
                raise self._unseen(request, exchange, exchange.failure)
        elif exchange.refused:
            raise self._fault(request, exchange, "other", exchange.refused)
        elif not exchange.complete:
            raise self._fault(request, exchange, _class_of(exchange.failure, "connection"))
        answer = exchange.document
        if exchange.status is None or (isinstance(answer, dict) and "choices" not in answer):
            answer = _translated(exchange.answer)
        message = _message(answer)
        if message is None:
            raise self._fault(request, exchange, "no_message")
        calls = message.get("tool_calls")
        if isinstance(calls, list) and len(calls) > CALLS_MAX:
            raise self._fault(request, exchange, "other", f"more than {CALLS_MAX} calls")
        return dict(answer)

    def _fault(self, request: Request, exchange: Exchange, error: str, why: str = "") -> ModelFault:
        """A fault of class `error` with what the wire showed."""
        body = bytes(exchange.body[:_DETAIL_BYTES_MAX]).decode("utf-8", "replace")
        return fault(
            error,
            status=exchange.status,
            retry_after_ms=_retry_after(exchange.headers),
            tool_choice=request.tool_choice is not None,
            detail=self._redacted(
                why or body or exchange.refused or _words(exchange.failure), exchange
            ),
        )

    def _unseen(self, request: Request, exchange: Exchange, failure: BaseException) -> ModelFault:
        """A fault of which only litellm's exception is known: nothing went through our client."""
        status: Any = getattr(failure, "status_code", None)
        local = _named(failure, "UnsupportedParamsError")
        unanswered = local or _named(failure, "Timeout", "APITimeoutError", "APIConnectionError")
        if unanswered or not isinstance(status, int) or not 300 <= status <= 599:
            status = None
        error = error_by_status(status) if status is not None else _class_of(failure, "other")
        asked = request.tool_choice is not None
        found = fault(
            "bad_request" if local else error,
            status=status,
            retry_after_ms=_retry_after(getattr(getattr(failure, "response", None), "headers", {})),
            tool_choice=asked,
            detail=self._redacted(_words(failure), exchange),
        )
        # litellm's own table of what a model takes refused before anything was sent: declined all the same.
        found.declines_tool_choice = found.declines_tool_choice or (local and asked)
        return found

    def _redacted(self, text: str, exchange: Exchange) -> str:
        return redact(text, {self._api_key or "", *exchange.secrets, *_secrets_of_environment()})


def _ask(litellm: Any, arguments: Mapping[str, Any], exchange: Exchange) -> None:
    """The body of a try's thread: the library's call and nothing else."""
    from .wire import CURRENT

    CURRENT.set(exchange)
    try:
        exchange.answer = litellm.completion(**arguments)
    except BaseException as failure:  # noqa: BLE001 whatever the library raises is a failed try
        exchange.failure = failure
    finally:
        exchange.finished.set()


def _sendable(value: Any) -> Any:
    """A deep copy in which U+FFFD replaces lone surrogates: no UTF-8 body can hold them."""
    if isinstance(value, str):
        return _LONE_SURROGATE.sub("�", value)
    if isinstance(value, Mapping):
        return {_sendable(key): _sendable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_sendable(item) for item in value]
    return value


def _translated(answer: Any) -> Mapping[str, Any] | None:
    """litellm's own reading of an answer in another dialect, or None."""
    if answer is None:
        return None
    try:
        dumped = answer.model_dump()
    except Exception:  # noqa: BLE001 a reading that cannot be written down is no reading
        return None
    return dumped if isinstance(dumped, dict) else None


def _message(answer: Any) -> Mapping[str, Any] | None:
    """The message of the first choice of a chat completion, or None where there is none."""
    choices = answer.get("choices") if isinstance(answer, Mapping) else None
    first = choices[0] if isinstance(choices, list) and choices else None
    message = first.get("message") if isinstance(first, Mapping) else None
    return message if isinstance(message, Mapping) else None


def _retry_after(headers: Mapping[str, str]) -> int | None:
    """The wait that `headers` ask for, a date counted from the provider's own clock where it shows it."""
    now_seconds = unix_seconds(headers.get("date", ""))
    return retry_after(
        headers.get("retry-after"),
        now_seconds=time.time() if now_seconds is None else now_seconds,
    )


def _named(failure: BaseException | None, *names: str) -> bool:
    return any(kind.__name__ in names for kind in type(failure).__mro__)


def _class_of(failure: BaseException | None, otherwise: str) -> str:
    """The class name for an exception of a try to which no status belongs."""
    if _named(failure, "Timeout", "APITimeoutError", "TimeoutException"):
        return "timeout"
    return "connection" if _named(failure, "APIConnectionError") else otherwise


def _words(failure: BaseException | None) -> str:
    return "" if failure is None else f"{type(failure).__name__}: {failure}"


def _secrets_of_environment() -> Iterator[str]:
    return (value for name, value in os.environ.items() if _SECRET_NAME.search(name))
