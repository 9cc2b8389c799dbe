"""Every failure that causebook names, and the exit code each one ends a command with.

    CausebookError                     70
    ├── SealRefused                    26  the store holds fewer records than were sealed: rolled back
    │   └── LogForked                  27  the store holds another history than the one that was sealed
    ├── Misuse                         64  the command or the call is wrong
    ├── BadData                        65  a file or a value that was given is not what it should be
    │   └── RecordError                65  bytes that are not a record (domain/record.py)
    ├── NoInput                        66  what was named is not there
    ├── StoreUnavailable               69  the store is down or refuses the login
    ├── CannotCreate                   73  what was to be made cannot be, or exists already
    ├── IOFailure                      74  reading or writing failed
    ├── Busy                           75  locked, or owned by somebody else for now
    │   └── VersionConflict            75  another writer appended to the stream first
    ├── Denied                         77  keys, passphrases, permissions
    └── Interrupted                   130  the person pressed Ctrl-C

The codes 64 to 77 are those of BSD `sysexits.h`. What `verify` finds in a ledger is not an error of
ours but a *finding*: it is reported, never raised, and has the codes 20 to 28. Sealing finds two of the same
facts and stops at them, with the same two codes.

An error says what was expected, what was found and where, on one line; `hint` says what to do next.
A programmer's mistake is an ordinary exception (`TypeError`, `ValueError`) that nobody catches.
"""

from __future__ import annotations

from typing import ClassVar


class CausebookError(Exception):
    """A failure with a message for a person.

    `message` is one line: where, what was expected, what was found. `hint` is one line: what to try.
    Both may quote hostile text; whoever prints them makes it safe for a terminal.
    """

    exit_code: ClassVar[int] = 70

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        if hint:
            # So that a traceback of the library says it too.
            self.add_note(f"hint: {hint}")


class SealRefused(CausebookError):
    """The store holds fewer records than its log key, or a witness, has signed: it was rolled back."""

    exit_code: ClassVar[int] = 26


class LogForked(SealRefused):
    """The store holds another history than the one that its log key has signed."""

    exit_code: ClassVar[int] = 27


class Misuse(CausebookError):
    """Wrong use: an argument, an option, or a call out of order."""

    exit_code: ClassVar[int] = 64


class BadData(CausebookError):
    """Something that was handed in is not what it should be."""

    exit_code: ClassVar[int] = 65


class RecordError(BadData):
    """Bytes that are not a record: `why` names the rule of `domain/record.py` they break."""


class NoInput(CausebookError):
    """What was named is not there."""

    exit_code: ClassVar[int] = 66


class StoreUnavailable(CausebookError):
    """The store is down, or refuses the login."""

    exit_code: ClassVar[int] = 69


class CannotCreate(CausebookError):
    """What was to be made exists already, or cannot be made there."""

    exit_code: ClassVar[int] = 73


class IOFailure(CausebookError):
    """The operating system refused a read or a write."""

    exit_code: ClassVar[int] = 74


class Busy(CausebookError):
    """Locked, or owned by somebody else for now: trying again later can help."""

    exit_code: ClassVar[int] = 75


class VersionConflict(Busy):
    """Another writer appended to the stream first; nothing of this append was stored."""


class Denied(CausebookError):
    """Keys, passphrases, permissions."""

    exit_code: ClassVar[int] = 77


class Interrupted(CausebookError):
    """The person pressed Ctrl-C; what was recorded stays."""

    exit_code: ClassVar[int] = 130
