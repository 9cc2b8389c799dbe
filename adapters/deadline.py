"""Reading from a socket within one span of time and of bytes, however slowly the other side writes.

A socket's own timeout begins anew with each byte: who sends one every nine seconds is never too slow for ten.
"""

from __future__ import annotations

import io
import socket
import time


class TooMuch(OSError):
    """The other side sent more than it was allowed."""


class DeadlineReader(io.RawIOBase):
    """The bytes of a socket, until a moment and up to a number of bytes.

    Reading raises `TimeoutError` after the moment, `TooMuch` beyond the number. What lies around it reads
    ahead by its buffer, so the number holds to within that.
    """

    def __init__(self, sock: socket.socket, *, seconds: float, bytes_max: int) -> None:
        self._sock = sock
        # A raw file keeps the socket open for as long as somebody reads from it.
        self._raw = sock.makefile("rb", buffering=0)
        self.begin(seconds=seconds, bytes_max=bytes_max)

    def begin(self, *, seconds: float, bytes_max: int) -> None:
        """Allow that many seconds from now, and that many bytes."""
        self._deadline = time.monotonic() + seconds
        self._bytes_left = bytes_max

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview, /) -> int | None:  # type: ignore[override]
        remaining = self._deadline - time.monotonic()
        if remaining <= 0:
            raise TimeoutError("the other side is too slow")
        if self._bytes_left <= 0:
            raise TooMuch("the other side sends too much")
        self._sock.settimeout(remaining)
        count = self._raw.readinto(buffer)
        self._bytes_left -= count or 0
        return count

    def close(self) -> None:
        try:
            self._raw.close()
        finally:
            super().close()
