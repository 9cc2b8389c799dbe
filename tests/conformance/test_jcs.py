"""The test data of RFC 8785: what we write is that, within our subset, and what lies outside is refused."""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest

from causebook.domain.canonical import INTEGER_MAX, decode, encode

from .shared import shared

WITHIN = {"arrays", "structures", "unicode"}
"""Integers alone, and ASCII keys. The others have fractions, or keys in other scripts."""


def is_within(document: Any) -> bool:
    match document:
        case dict():
            return all(key.isascii() for key in document) and all(map(is_within, document.values()))
        case list():
            return all(map(is_within, document))
        case float():
            return False
        case int():
            return abs(document) <= INTEGER_MAX
    return True


@pytest.mark.parametrize("name", ["arrays", "french", "structures", "unicode", "values", "weird"])
def test_the_canonical_form_is_that_of_the_rfc_or_is_refused(name: str) -> None:
    folder = shared("vectors", "jcs-cyberphone", "testdata")
    canonical = folder.joinpath("output", f"{name}.json").read_bytes()
    in_hex = "".join(folder.joinpath("outhex", f"{name}.txt").read_text().split())
    assert canonical == bytes.fromhex(in_hex)
    document = json.loads(canonical)
    assert is_within(document) == (name in WITHIN)
    if name in WITHIN:
        given = json.loads(folder.joinpath("input", f"{name}.json").read_text(), parse_float=whole)
        assert given == document
        assert encode(given) == canonical
        assert decode(canonical) == document
    else:
        with pytest.raises(ValueError, match=r"canonical|integers"):
            decode(canonical)


def whole(text: str) -> int:
    """`56.0` is the integer 56 to RFC 8785."""
    number = float(text)
    assert number.is_integer()
    return int(number)


def test_the_10000_numbers_are_written_so_or_are_none_of_ours() -> None:
    """An integer within 2^53-1 is written as the RFC writes it; any other number is refused as it stands."""
    lines = shared("vectors", "es6-numbers", "es6testfile10k.txt").read_text().splitlines()
    ours = 0
    for line in lines:
        in_hex, _, expected = line.partition(",")
        (number,) = struct.unpack(">d", int(in_hex, 16).to_bytes(8, "big"))
        is_minus_zero = number == 0 and in_hex.startswith("8")
        if number.is_integer() and abs(number) <= INTEGER_MAX and not is_minus_zero:
            ours += 1
            assert encode(int(number)).decode() == expected
            assert decode(expected.encode()) == number
        elif is_minus_zero:
            assert expected == "0"
            with pytest.raises(ValueError, match="canonical"):
                decode(b"-0")
        else:
            with pytest.raises(ValueError, match=r"canonical|integers"):
                decode(expected.encode())
    assert (len(lines), ours) == (10_000, 13)
