"""How much of anything goes into one record, and where each limit comes from.

A record is at most 61,440 bytes, so that it fits the uint16 length of an entry in a C2SP `tlog-tiles`
bundle with room to spare. The others follow: the worst `ModelResponded` and the worst `AttemptClosed` still
fit. Bytes are counted as the text stands escaped in line 1 of the record, between its quotes.
"""

from __future__ import annotations

from typing import Final

RECORD_BYTES_MAX: Final = 61_440
JUDGES_MAX: Final = 32
CALLS_MAX: Final = 64
TURNS_MAX: Final = 200
TURNS_DEFAULT: Final = 20
STALL_TURNS_MAX: Final = 3
NAME_BYTES_MAX: Final = 128
READ_ARGUMENT_BYTES_MAX: Final = 4 * 1024
VERDICT_ARGUMENT_BYTES_MAX: Final = 16 * 1024
TURN_ARGUMENT_BYTES_MAX: Final = 24 * 1024
JUSTIFICATION_BYTES_MAX: Final = 8 * 1024
CRITERIA_BYTES_MAX: Final = 16 * 1024
MODEL_BYTES_MAX: Final = 512
ROOT_BYTES_MAX: Final = 8 * 1024
REASON_BYTES_MAX: Final = 8 * 1024
EVIDENCE_BYTES_MAX: Final = 64 * 1024 * 1024
"""One item of evidence, unpacked: what a writer may keep, and what a reader will unpack, so that a small row
cannot fill the memory."""
