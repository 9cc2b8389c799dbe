"""Private keys are withheld: what a judge is shown goes to the provider of its model, and into the evidence.

A file that holds the block of a private key in PEM is withheld whole, wherever it lies and whatever it is
called, now and in history. The block is

    -----BEGIN [...] PRIVATE KEY[ BLOCK]-----

and after it, before the next five dashes and within `GAP_BYTES_MAX` (headers, line ends, quotes), a run of
at least `RUN_BYTES` characters of base64. So a text that merely names the line is shown. Keys in any other
form (DER, JWK, a PEM block that is itself encoded) are not known from other bytes, and are not withheld.

What is withheld is said to be, so that a key put into a file to hide the rest of it is seen for what it is.
"""

from __future__ import annotations

import re
from typing import Final

WITHHELD: Final = "withheld: it holds a private key"
GAP_BYTES_MAX: Final = 1_024
RUN_BYTES: Final = 32

_BEGIN = re.compile(rb"-----BEGIN (?:[A-Z0-9]{1,16} ){0,4}PRIVATE KEY(?: BLOCK)?-----")
_BEGIN_BYTES_MAX = 11 + 4 * 17 + 17 + 5
_RUN = re.compile(rb"[A-Za-z0-9+/=]+")

AHEAD_BYTES: Final = _BEGIN_BYTES_MAX + GAP_BYTES_MAX + RUN_BYTES
"""How far a block reaches until it is known to be one."""


class KeySearch:
    """Takes content in chunks, and knows whether a private key was `found` in it."""

    def __init__(self) -> None:
        self.found = False
        self._tail = b""

    def feed(self, chunk: bytes) -> None:
        """The next bytes."""
        if self.found:
            return
        window = self._tail + chunk
        self.found = holds_key(window)
        self._tail = window[-AHEAD_BYTES:]


def holds_key(content: bytes) -> bool:
    """Whether there is the block of a private key in `content`."""
    if b"PRIVATE KEY" not in content:
        return False
    for begin in _BEGIN.finditer(content):
        body = content[begin.end() : begin.end() + GAP_BYTES_MAX + RUN_BYTES].partition(b"-----")[0]
        if any(len(run) >= RUN_BYTES for run in _RUN.findall(body)):
            return True
    return False


def without_keys(line: bytes) -> bytes:
    """`line`, or what stands for it where it holds a private key."""
    return f"[{WITHHELD}]".encode() if holds_key(line) else line


def placeholder(blob: str) -> bytes:
    """What stands in a difference for the content of a blob that is withheld.

    The id tells two of them apart: a key that was swapped for another is a change.
    """
    return f"[{WITHHELD}]\n[blob {blob}]\n".encode()
