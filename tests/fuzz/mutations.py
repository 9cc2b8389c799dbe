"""What an attacker does to valid bytes: small damage, and the same thing spelt another way.

Each change takes the bytes, two numbers and another valid input, and answers other bytes; any numbers do. So
one definition serves hypothesis, which shrinks the numbers, and a coverage-guided fuzzer, which draws them.

`hostile` is the other half: inputs of a given size that grow one thing only, as nobody's damage would.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import orjson

Change = Callable[[bytes, int, int, bytes], bytes]
"""(bytes, a number, another, another valid input) → other bytes."""

Step = tuple[str, int, int]
"""The name of a change, and its two numbers."""

TOKENS: Final = (
    b"", b"\n", b"\n\n", b" ", b"\t", b"\r\n", b"\0", b"\x1f", b"\x7f", b"\x85", b"\xff", b"\xc0\x80",
    b"\xed\xa0\x80", b"\xef\xbb\xbf", "\u2028".encode(), "\u202e".encode(), "\u00a0".encode(),
    "\u2014".encode(), "\u2014 ".encode(), b"+", b"=", b"==", b"-", b"/", b"../", b"\\", b'"', b"\\ud800",
    b"[", b"]", b"{", b"}", b",", b":", b"[]", b"{}", b"null", b"true", b"#", b"none", b"any", b"all",
    b"old ", b"index ", b"extra ", b"log ", b"witness ", b"group ", b"quorum ", b"PK\x03\x04",
    b"PK\x01\x02", b"PK\x05\x06", b"PK\x06\x06", b"PK\x06\x07", b"HTTP/1.1 ", b"Content-Length: ",
    b"Transfer-Encoding: chunked\r\n", b"[[judge]]\n",
)  # fmt: skip
"""What some format here takes for a mark, or is known to trip over."""

NUMBERS: Final = (
    b"0", b"-0", b"-1", b"-5", b"1", b"1.0", b"1e0", b"1E400", b"007", b"+1", b" 1", b"1_0", b"0x10",
    b"255", b"256", b"65535", b"65536", b"4294967295", b"4294967296", b"9007199254740991",
    b"9007199254740992", b"18446744073709551615", b"18446744073709551616", b"9" * 400, b"9" * 5_000,
    "\u0661".encode(), "\uff11".encode(), b"true", b"NaN", b"Infinity",
)  # fmt: skip
"""Numbers at the edge of some type, and numbers spelt as no format here allows."""

VALUES: Final[tuple[Any, ...]] = (
    None, True, False, 0, 1, -1, 2**53 - 1, 2**53, 2**64, 1.0, 1.5, 1e300, "", " ", "\0", "a" * 300,
    "\ud800", "\u2028", "\u202e", "e\u0301", "1", [], [[]], [None], {}, {"": 0}, {"\ud800": 1},
)  # fmt: skip
"""JSON values that stand where another type, or a plainer text, is expected."""

_NUMBER = re.compile(rb"[0-9]+")
_BASE64 = re.compile(rb"[A-Za-z0-9+/]{8,}={0,2}")
_ALPHABET: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


def changed(data: bytes, steps: Iterable[Step], other: bytes = b"", *, bytes_max: int) -> bytes:
    """`data` after these changes, cut to `bytes_max`."""
    for name, first, second in steps:
        data = CHANGES[name](data, first, second, other)[:bytes_max]
    return data


def _place(data: bytes, number: int) -> int:
    return number % (len(data) + 1)


def _span(data: bytes, first: int, second: int) -> tuple[int, int]:
    start = _place(data, first)
    return start, start + second % (len(data) - start + 1)


def _flip(data: bytes, first: int, second: int, other: bytes) -> bytes:
    if not data:
        return b""
    at = first % len(data)
    return data[:at] + bytes([data[at] ^ 1 << second % 8]) + data[at + 1 :]


def _cut(data: bytes, first: int, second: int, other: bytes) -> bytes:
    start, end = _span(data, first, second)
    return data[:start] + data[end:]


def _end_early(data: bytes, first: int, second: int, other: bytes) -> bytes:
    return data[: _place(data, first)]


def _splice(data: bytes, first: int, second: int, other: bytes) -> bytes:
    return data[: _place(data, first)] + other[_place(other, second) :]


def _repeat(data: bytes, first: int, second: int, other: bytes) -> bytes:
    start, end = _span(data, first, second % 64)
    return data[:end] + data[start:end] * (1 + second % 300) + data[end:]


def _repeat_line(data: bytes, first: int, second: int, other: bytes) -> bytes:
    lines = data.split(b"\n")
    at = first % len(lines)
    return b"\n".join(lines[:at] + [lines[at]] * (1 + second % 200) + lines[at:])


def _insert(data: bytes, first: int, second: int, other: bytes) -> bytes:
    at = _place(data, first)
    return data[:at] + TOKENS[second % len(TOKENS)] + data[at:]


def _overwrite(data: bytes, first: int, second: int, other: bytes) -> bytes:
    at, token = _place(data, first), TOKENS[second % len(TOKENS)]
    return data[:at] + token + data[at + len(token) :]


def _replaced(
    pattern: re.Pattern[bytes], data: bytes, first: int, respell: Callable[[bytes], bytes]
) -> bytes:
    found = list(pattern.finditer(data))
    if not found:
        return data
    match = found[first % len(found)]
    return data[: match.start()] + respell(match[0]) + data[match.end() :]


def _respell_number(data: bytes, first: int, second: int, other: bytes) -> bytes:
    def respell(digits: bytes) -> bytes:
        own = (b"0" + digits, digits + b".0", digits + b"e0", b"+" + digits, digits + b"0" * 400)
        choices = NUMBERS + own
        return choices[second % len(choices)]

    return _replaced(_NUMBER, data, first, respell)


def _respell_base64(data: bytes, first: int, second: int, other: bytes) -> bytes:
    def respell(text: bytes) -> bytes:
        bare = text.rstrip(b"=")
        last = _ALPHABET[_ALPHABET.find(bare[-1:]) ^ 1 :][:1]
        choices = (
            bare,  # without its padding
            bare + b"====",
            bare[:-1] + last + text[len(bare) :],  # a bit that is not used, or the last that is
            text[:4] + b"\n" + text[4:],
            text[:4] + b" " + text[4:],
            text.replace(b"+", b"-").replace(b"/", b"_"),
            text + text,
            text[:-4],
            b"A" * len(bare) + text[len(bare) :],
        )
        return choices[second % len(choices)]

    return _replaced(_BASE64, data, first, respell)


def _respell_json(data: bytes, first: int, second: int, other: bytes) -> bytes:
    """Another value, key or order in the first line that is JSON, written canonically where that can be."""
    line, blank, rest = data.partition(b"\n")
    try:
        document = json.loads(line)
        places = list(_places(document, ()))
    except (ValueError, RecursionError):
        return data
    document = _put(document, places[first % len(places)], second)
    try:
        line = orjson.dumps(document, option=orjson.OPT_SORT_KEYS)
    except TypeError:  # a lone surrogate, an integer of more than 64 bits
        line = json.dumps(document, sort_keys=True, separators=(",", ":")).encode()
    return line + blank + rest


def _places(value: Any, path: tuple[Any, ...]) -> Iterable[tuple[Any, ...]]:
    yield path
    pairs: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, dict):
        pairs = value.items()
    elif isinstance(value, list):
        pairs = enumerate(value)
    for key, item in pairs:
        yield from _places(item, (*path, key))


def _put(value: Any, path: tuple[Any, ...], number: int) -> Any:
    """`value` with what stands at `path` changed: another value, left out, moved, repeated."""
    if path:
        key, rest = path[0], path[1:]
        copy = dict(value) if isinstance(value, dict) else list(value)
        if not rest and number % 5 == 0:
            del copy[key]
        else:
            copy[key] = _put(copy[key], rest, number)
        return copy
    if number % 5 == 1:
        if isinstance(value, list):
            return value[::-1] if number % 2 else value * 2
        if isinstance(value, dict):
            return {**value, "extra": 1}
        if isinstance(value, str):
            return value[::-1] if number % 2 else value + value
        if isinstance(value, int):
            return value + 1
    return VALUES[number // 5 % len(VALUES)]


def respelt(data: bytes, *, places_max: int) -> Iterator[bytes]:
    """`data` with each number, each base64 text and each JSON value of it in turn, in every other way.

    And with other ends, of itself and of its lines. Up to `places_max` of each kind, spread over all there
    are.
    """
    number_spellings = range(len(NUMBERS) + 5)
    kinds_of_value = (0, 1, 6, *range(2, 5 * len(VALUES), 5))
    kinds: tuple[tuple[Change, int, Iterable[int]], ...] = (
        (_respell_number, len(_NUMBER.findall(data)), number_spellings),
        (_respell_base64, len(_BASE64.findall(data)), range(9)),
        (_respell_json, _count_places(data), kinds_of_value),
    )
    yield from (
        data[:-1],
        data[1:],
        data + b"\n",
        b"\xef\xbb\xbf" + data,
        data + b"\0",
        data + data,
    )
    yield data.replace(b"\n", b"\r\n")
    for respell, count, spellings in kinds:
        for place in range(0, count, max(1, count // places_max)):
            for spelling in spellings:
                yield respell(data, place, spelling, b"")


def _count_places(data: bytes) -> int:
    try:
        return sum(1 for _ in _places(json.loads(data.partition(b"\n")[0]), ()))
    except (ValueError, RecursionError):
        return 0


CHANGES: Final[dict[str, Change]] = {
    "flip": _flip,
    "cut": _cut,
    "end early": _end_early,
    "splice": _splice,
    "repeat": _repeat,
    "repeat a line": _repeat_line,
    "insert": _insert,
    "overwrite": _overwrite,
    "respell a number": _respell_number,
    "respell base64": _respell_base64,
    "respell JSON": _respell_json,
}

FILLERS: Final = (
    b"[", b"[],", b'{"a":', b'"', b"\\", b"\n", b" ", b"0", b"A", b"=", b"\xff", b"\0", "\u2014 ".encode(),
    "\u2014 a AAAAAAAA\n".encode(), b"a.", b"/", b"%41", b"- \n", b"old 1\n", b"group a any a\n", b"\r\n",
    b"a: b\r\n", b"1\r\nx\r\n", b"-----BEGIN CERTIFICATE-----\n", b"0\x80", b"PK\x05\x06", b"PK\x01\x02",
)  # fmt: skip

ITEMS: Final = (b"0", b"1000", b"1.5", b"null", b'""', b'"a"', b"[]", b"{}", b'{"a":0}')
"""What a document in JSON can hold many of."""


def hostile(seed: bytes, size: int) -> Iterator[tuple[str, bytes]]:
    """(what it is, about `size` bytes): one thing again and again, by itself, and where valid input began."""
    half = seed[: min(len(seed), size) // 2]
    for filler in FILLERS:
        yield f"{filler!r}", filler * (size // len(filler))
        yield f"begun, {filler!r}", half + filler * ((size - len(half)) // len(filler))
    for item in ITEMS:
        listed = b"[%b]" % b",".join([item] * (size // (len(item) + 1)))
        yield f"a list of {item!r}", listed
        yield f"a field that is a list of {item!r}", b'{"a":%b}\n' % listed
    lines = seed.split(b"\n")
    for at, line in list(enumerate(lines))[:6]:
        count = max(1, (size - len(seed)) // (len(line) + 1))
        yield f"line {at + 1} repeated", b"\n".join(lines[:at] + [line] * count + lines[at:])
    yield "repeated", seed * (size // max(1, len(seed)))
