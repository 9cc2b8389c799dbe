"""Bytes and numbers as text, each with one spelling: what C2SP's formats and ours are written with.

A second spelling of the same bytes is how two readers come to two answers, so there is none: base64 is
RFC 4648 section 4, padded, with its unused bits zero; a number is ASCII decimal without leading zeros.
"""

from __future__ import annotations

import base64
import binascii
import re
from functools import lru_cache

from .canonical import INTEGER_MAX

_DECIMAL = re.compile(r"0|[1-9][0-9]{0,15}", re.ASCII)


# No space, no "+", no control; and nothing that is not seen, or that turns what is seen around, since names
# are compared by eye. Written out, so that it does not depend on the version of Unicode at hand.
_KEY_NAME = re.compile(
    r"[^\s+\x00-\x20\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    r"\ud800-\udfff\U000e0000-\U000e007f]{1,255}"
)


@lru_cache(maxsize=64)  # all records of a ledger have the same
def is_key_name(name: str) -> bool:
    """Whether `name` can name a note's key, and so be a ledger's origin: 1 to 255 characters, all seen."""
    return _KEY_NAME.fullmatch(name) is not None


def base64_text(raw: bytes) -> str:
    """`raw` in base64."""
    return base64.b64encode(raw).decode("ascii")


def base64_bytes(text: str) -> bytes:
    """The bytes that `text` spells. Raises `ValueError` where it is not their one spelling."""
    try:
        raw = binascii.a2b_base64(text.encode("ascii"), strict_mode=True)
    except ValueError:
        raise ValueError("expected canonical base64") from None
    if base64_text(raw) != text:
        raise ValueError("expected canonical base64")
    return raw


def decimal(text: str) -> int:
    """The number, 0 to 2^53-1, that `text` spells. Raises `ValueError` where it is not its one spelling."""
    if _DECIMAL.fullmatch(text) is None or int(text) > INTEGER_MAX:
        raise ValueError("expected a decimal number without leading zeros")
    return int(text)


def hash_bytes(text: str) -> bytes:
    """The SHA-256 that a line of base64 spells. Raises `ValueError` where it does not spell 32 bytes."""
    raw = base64_bytes(text)
    if len(raw) != 32:
        raise ValueError(f"expected a hash of 32 bytes, found {len(raw)}")
    return raw
