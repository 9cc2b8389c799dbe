"""What went wrong with one try, by the same rules for a live model and for a scripted one.

| status | `error` | another try may work |
|---|---|---|
| 400, 422 | `bad_request` | no; with `tool_choice` sent it counts as declining that (rule 9) |
| 401, 403 | `auth` | no |
| 404 | `not_found` | no |
| 408 | `timeout` | yes |
| 409 | `other` | yes |
| 429 | `rate_limit` | yes |
| 500 to 599, 529 among them | `server` | yes |
| any other | `other` | no |
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Final

from ...domain.canonical import INTEGER_MAX
from ...domain.ports import ModelFault

DETAIL_CHARACTERS_MAX: Final = 4_096
_DETAIL_CHARACTERS_READ_MAX: Final = 65_536

DECLINING: Final = frozenset({400, 422})
RETRYABLE_STATUS: Final = frozenset({408, 409, 429})
ERRORS: Final = (
    "timeout",
    "connection",
    "rate_limit",
    "server",
    "bad_request",
    "auth",
    "not_found",
    "no_message",
    "script_exhausted",
    "other",
)
"""Every class name of `ModelFault.error`."""

RETRYABLE_ERRORS: Final = frozenset({"timeout", "connection", "rate_limit", "server", "no_message"})
"""The classes that another try may cure, where no status says otherwise."""

_BY_STATUS: Final = {
    400: "bad_request",
    401: "auth",
    403: "auth",
    404: "not_found",
    408: "timeout",
    422: "bad_request",
    429: "rate_limit",
}

REDACTED: Final = "[redacted]"
_SECRET_BYTES_MIN: Final = 8  # a shorter "secret" would blot out ordinary words
_KEY_SHAPED: Final = re.compile(
    r"\b(?:sk|pk|rk|xai|gsk|pplx|hf|r8)[-_][A-Za-z0-9*._-]{8,}"  # keys by their customary prefix
    r"|\bAIza[A-Za-z0-9_*-]{20,}"
    r"|(?<=[Bb]earer )[^\s\"',}]+"
    r"|(?<=[?&]key=)[^\s&\"']+"
)


def error_by_status(status: int) -> str:
    """The class name of an HTTP `status` that is not a success."""
    return "server" if 500 <= status <= 599 else _BY_STATUS.get(status, "other")


def fault(
    error: str,
    *,
    status: int | None = None,
    retry_after_ms: int | None = None,
    tool_choice: bool = False,
    detail: str = "",
) -> ModelFault:
    """The fault of class `error`; where there was a `status`, that alone says whether to try again.

    `tool_choice`: the request carried one.
    """
    success = status is not None and 200 <= status <= 299
    if status is None or success:
        retryable = error in RETRYABLE_ERRORS
    else:
        retryable = status in RETRYABLE_STATUS or 500 <= status <= 599
    return ModelFault(
        error,
        status=status,
        retry_after_ms=retry_after_ms,
        retryable=retryable,
        declines_tool_choice=tool_choice and status in DECLINING,
        detail=detail,
    )


def milliseconds(seconds: float) -> int | None:
    """`seconds` to wait, in whole milliseconds, rounded up; None where they are negative or no number."""
    if math.isnan(seconds) or seconds < 0:
        return None
    return INTEGER_MAX if seconds >= INTEGER_MAX / 1000 else math.ceil(seconds * 1000)


def retry_after(value: str | None, *, now_seconds: float) -> int | None:
    """What a `Retry-After` header asks for, in milliseconds; None where it asks for nothing readable.

    A number of seconds (a fraction is taken, though RFC 9110 knows none) or an HTTP date, counted from
    `now_seconds`, Unix time. A date that has passed asks for nothing.
    """
    if value is None:
        return None
    value = value.strip()
    if re.fullmatch(r"[0-9]{1,300}(?:\.[0-9]{1,9})?", value):
        return milliseconds(float(value))
    until_seconds = unix_seconds(value)
    return None if until_seconds is None else milliseconds(until_seconds - now_seconds)


def unix_seconds(date: str) -> float | None:
    """The Unix time of an HTTP `date`, or None where it is none."""
    try:
        when = parsedate_to_datetime(date)
        # "-0000" means UTC, of a place unknown; Python leaves it without a zone.
        return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def redact(text: str, secrets: Iterable[str] = ()) -> str:
    """`text`, cut to `DETAIL_CHARACTERS_MAX`, without `secrets` and without what looks like a key.

    Cut generously before and exactly after, so that no key is left in half at the end.
    """
    text = text[:_DETAIL_CHARACTERS_READ_MAX]
    for secret in sorted(
        {s for s in secrets if len(s) >= _SECRET_BYTES_MIN}, key=len, reverse=True
    ):
        text = text.replace(secret, REDACTED)
    return _KEY_SHAPED.sub(REDACTED, text)[:DETAIL_CHARACTERS_MAX]
