"""A model whose answers are read from a file: for demonstrations, tests and replays without a network.

JSON Lines in UTF-8, one line for each call of the model, in order; blank lines are skipped. A line is

- a chat message as OpenAI's API spells it, read just as a live one is (`message.py`):
  `{"role": "assistant", "content": "…", "tool_calls": […]}`, at least one of the last two; or
- a failure: `{"error": {"status": 429, "type": "rate_limit", "message": "…", "retry_after": 1}}`, at least
  one of `status` and `type`. `type` is a class name of `faults.ERRORS`, by default that of the status;
  `retry_after` is in seconds. Whether another try may work follows from these as for a live model.

The whole file is read and checked when the model is made: a wrong line is found before the first call.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from importlib import metadata
from os import PathLike, fspath
from typing import Any, Final

from ...domain.canonical import decode_foreign
from ...domain.errors import BadData, Denied, IOFailure, NoInput
from ...domain.ports import ModelFault, Request, Response
from .faults import ERRORS, error_by_status, fault, milliseconds
from .message import read_message

SCRIPT_BYTES_MAX: Final = 256 * 1024 * 1024
_UTF8_MARK: Final = b"\xef\xbb\xbf"
_ERROR_KEYS: Final = frozenset({"status", "type", "message", "retry_after"})


@dataclass(frozen=True)
class _Failure:
    error: str
    status: int | None
    retry_after_ms: int | None
    detail: str


class ScriptedModel:
    """Answers from the file at `path`, a line a call; then `ModelFault("script_exhausted")`.

    Raises `NoInput` where there is no such file, `Denied` or `IOFailure` where it cannot be read, and
    `BadData`, naming file and line, where a line is not what it should be.
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        name = fspath(path)
        version = metadata.version("causebook")
        self._steps = tuple(_step(name, number, line, version) for number, line in _lines(name))
        self._next = 0

    def complete(self, request: Request) -> Response:
        """The next line's answer, or its failure as `ModelFault`."""
        if self._next >= len(self._steps):
            raise ModelFault(
                "script_exhausted",
                detail=f"the script has {len(self._steps)} lines, and this call is one more",
            )
        step = self._steps[self._next]
        self._next += 1
        asked = request.tool_choice is not None
        if isinstance(step, Response):
            return replace(step, tool_choice_sent=asked)
        raise fault(
            step.error,
            status=step.status,
            retry_after_ms=step.retry_after_ms,
            tool_choice=asked,
            detail=step.detail,
        )


def _lines(name: str) -> Iterator[tuple[int, str]]:
    """The lines that are not blank, with their numbers from 1."""
    try:
        with open(name, "rb") as file:
            data = file.read(SCRIPT_BYTES_MAX + 1)
    except (FileNotFoundError, NotADirectoryError):
        raise NoInput(f"{name}: expected a script of answers, found no such file") from None
    except IsADirectoryError:
        raise NoInput(f"{name}: expected a script of answers, found a directory") from None
    except PermissionError:
        raise Denied(f"{name}: expected a readable file, found no permission to read it") from None
    except OSError as error:
        raise IOFailure(f"{name}: expected a readable file, found: {error.strerror}") from None
    except ValueError:  # a null byte in the name
        raise NoInput(f"{name!r}: expected the name of a file, found a null byte in it") from None
    if len(data) > SCRIPT_BYTES_MAX:
        raise BadData(f"{name}: expected at most {SCRIPT_BYTES_MAX} bytes, found more")
    # Only LF ends a line: JSON texts may hold U+2028 and its like, where str.splitlines would cut.
    for number, line in enumerate(data.removeprefix(_UTF8_MARK).split(b"\n"), start=1):
        if not line.strip(b" \t\r"):
            continue
        try:
            yield number, line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise BadData(
                f"{name}:{number}: expected UTF-8, found byte 0x{line[error.start]:02x}"
                f" at column {error.start + 1}"
            ) from None


def _step(name: str, number: int, line: str, version: str) -> Response | _Failure:
    where = f"{name}:{number}"
    try:
        document = decode_foreign(line)
    except json.JSONDecodeError as error:
        raise BadData(
            f"{where}: expected one JSON object, found at column {error.colno}: {error.msg}"
        ) from None
    except ValueError as error:
        raise BadData(f"{where}: expected one JSON object, found: {error}") from None
    if not isinstance(document, dict):
        raise BadData(f"{where}: expected a JSON object, found {_kind(document)}")
    if "error" in document:
        return _failure(where, document["error"])
    role = document.get("role", "assistant")
    if role != "assistant":
        raise BadData(f'{where}: expected the role "assistant", found {_shown(role)}')
    if "content" not in document and "tool_calls" not in document:
        raise BadData(
            f"{where}: expected content, tool_calls or error, found {_names(document)}",
            hint='a line is an assistant message, or {"error": {"status": 429}}',
        )
    content, calls = read_message(document)
    return Response(content, calls, model="script", client="script", client_version=version)


def _failure(where: str, error: Any) -> _Failure:
    if not isinstance(error, dict):
        raise BadData(f"{where}: error: expected an object, found {_kind(error)}")
    unknown = {key: None for key in error if key not in _ERROR_KEYS}
    if unknown or not ({"status", "type"} & error.keys()):
        raise BadData(
            f"{where}: error: expected status, type, message, retry_after, at least one of the"
            f" first two, found {_names(error)}"
        )
    status = error.get("status")
    if status is not None and not (_is_integer(status) and 300 <= status <= 599):
        raise BadData(
            f"{where}: error.status: expected an integer from 300 to 599, found {_shown(status)}"
        )
    name = error.get("type")
    if name is None:
        name = "other" if status is None else error_by_status(status)
    elif name not in ERRORS:
        raise BadData(
            f"{where}: error.type: expected one of {', '.join(ERRORS)}, found {_shown(name)}"
        )
    message = error.get("message", "")
    if not isinstance(message, str):
        raise BadData(f"{where}: error.message: expected text, found {_kind(message)}")
    return _Failure(name, status, _retry_after(where, error.get("retry_after")), message)


def _retry_after(where: str, seconds: Any) -> int | None:
    if seconds is None:
        return None
    if isinstance(seconds, float) or _is_integer(seconds):
        try:
            if math.isfinite(seconds) and seconds >= 0:
                return milliseconds(float(seconds))
        except OverflowError:
            pass
    raise BadData(
        f"{where}: error.retry_after: expected seconds, 0 or more, found {_shown(seconds)}"
    )


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _kind(value: Any) -> str:
    kinds = {dict: "an object", list: "a list", str: "text", bool: "a truth value"}
    return "null" if value is None else kinds.get(type(value), "a number")


def _shown(value: Any) -> str:
    if not isinstance(value, (str, int, float)) or value is None:
        return _kind(value)
    shown = json.dumps(value)
    return shown if len(shown) <= 60 else f"{shown[:60]}…"


def _names(document: Mapping[str, Any]) -> str:
    shown = ", ".join(sorted(document)) or "nothing"
    return shown if len(shown) <= 120 else f"{shown[:120]}…"
