"""Canonical JSON: one document, one spelling.

`encode` writes RFC 8785 for the documents causebook allows: keys are ASCII, numbers are integers within
±(2^53-1), strings hold Unicode scalar values. For those, orjson with sorted keys writes the very bytes of
RFC 8785; a property test holds it against an independent implementation.

A value that is a fact of ours stands for its fields: `encode` asks it for them.

`decode` takes only what `encode` writes. It parses, encodes again and compares, so a duplicate key, a
blank, `-0`, `1e0`, a needless escape or a lone surrogate is refused without a rule of its own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, Final

import orjson

INTEGER_MAX: Final = 2**53 - 1
DEPTH_MAX: Final = 64
_SPELLING: Final = orjson.OPT_SORT_KEYS | orjson.OPT_STRICT_INTEGER
# Possessive, so that no text takes more than one pass; an unterminated string is no JSON either way.
_STRING = re.compile(r'"(?:[^"\\]|\\.?)*+"?', re.DOTALL)

_LIKE_A_FLOAT = re.compile(rb"(?:^|[\[:,])-?[0-9]+[.e]")


def encode(document: Any) -> bytes:
    """The one spelling of `document`.

    Raises `ValueError` where it cannot be written: a lone surrogate, a key that is no string, an integer
    beyond 2^53-1, too deep.
    """
    try:
        return orjson.dumps(document, _fields, _SPELLING)
    except orjson.JSONEncodeError as error:  # which is a TypeError
        raise ValueError(str(error)) from None


def _fields(value: Any) -> Any:
    return value.fields()  # of anything else there are none, and orjson says that it is no JSON


def decode(line: bytes) -> Any:
    """The document that `line` spells.

    Raises `ValueError` with a few words saying what is wrong.
    """
    try:
        document = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg}") from None
    try:
        spelled = orjson.dumps(document, option=_SPELLING)
    except orjson.JSONEncodeError as error:
        raise ValueError(f"not canonical JSON (RFC 8785): {error}") from None
    if spelled != line:
        raise ValueError("not canonical JSON (RFC 8785)")
    # What orjson reads and writes alike and RFC 8785 spells or sorts otherwise: 1.0, keys beyond ASCII.
    # A first look at the bytes, where no blank stands between values: it may be text that only looks so.
    floats = _LIKE_A_FLOAT.search(line) is not None and _float_among((document,))
    if floats or not (line.isascii() or _ascii_keys(document)):
        raise ValueError("expected ASCII keys, and numbers that are integers within 2^53-1")
    return document


def _float_among(values: Iterable[Any]) -> bool:
    for value in values:
        kind = type(value)
        if kind is str or kind is int:
            continue
        if kind is dict:
            if _float_among(value.values()):
                return True
        elif kind is float or (kind is list and _float_among(value)):
            return True
    return False


def _ascii_keys(value: object) -> bool:
    if isinstance(value, dict):
        return "".join(value).isascii() and all(map(_ascii_keys, value.values()))
    return not isinstance(value, list) or all(map(_ascii_keys, value))


class DuplicateKey(ValueError):
    """A JSON object names one key twice; what it says depends on who reads it."""


def decode_foreign(text: str) -> Any:
    """The document that somebody else's JSON `text` spells, in any spelling, duplicate keys refused.

    For argument text written by a model. Raises `DuplicateKey`, or `ValueError` for what is not JSON (the
    names NaN and Infinity, which Python would take, included) or nests too deep.
    """
    if _depth(text) > DEPTH_MAX:
        raise ValueError(f"nested deeper than {DEPTH_MAX}")
    return _FOREIGN.decode(text)


def _depth(text: str) -> int:
    # Python's own limit depends on how deep the caller stands, and the answer must not.
    if text.count("[") + text.count("{") <= DEPTH_MAX:
        return 0
    depth = deepest = 0
    for character in _STRING.sub("", text):
        if character in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif character in "]}":
            depth -= 1
    return deepest


def _integer(digits: str) -> int | float:
    # Python's own limit on digits is a setting of the process, and the answer must not depend on it.
    return int(digits) if len(digits) <= 20 else float(digits)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) != len(pairs):
        raise DuplicateKey("an object names one key twice")
    return document


def _not_json(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


_FOREIGN: Final = json.JSONDecoder(
    object_pairs_hook=_unique, parse_constant=_not_json, parse_int=_integer
)


def escaped_bytes(text: str) -> int | None:
    """How many bytes `text` takes between its quotes in canonical JSON; None if it cannot be written.

    It cannot be where it holds a lone surrogate, which is no Unicode scalar value.
    """
    try:
        return len(orjson.dumps(text)) - 2
    except orjson.JSONEncodeError:
        return None
