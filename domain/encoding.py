"""Bytes and numbers as text, each with one spelling: what C2SP's formats and ours are written with.

A second spelling of the same bytes is how two readers come to two answers, so there is none: base64 is
RFC 4648 section 4, padded, with its unused bits zero; a number is ASCII decimal without leading zeros.
"""

from __future__ import annotations

import base64
import binascii
import re

from .canonical import INTEGER_MAX

_DECIMAL = re.compile(r"0|[1-9][0-9]{0,15}", re.ASCII)


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
