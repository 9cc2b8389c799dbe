"""Reading a file that somebody named: without waiting for it to be there, and up to a bound."""

from __future__ import annotations

import os
import stat

from ..domain.errors import BadData, Denied, IOFailure, NoInput


def read_file(
    path: str | os.PathLike[str],
    bytes_max: int,
    what: str,
    *,
    hint: str = "",
    is_waited_for: bool = False,
) -> bytes:
    """The bytes of the file at `path`, which is to be `what`: "a checkpoint", say.

    A pipe that somebody writes to, as a shell's `<(command)` is, is read to its end; one that nobody writes
    to yet is refused at once, unless it `is_waited_for`; so is a device or a folder. Raises `NoInput`,
    `Denied`, `IOFailure`, or `BadData` where it holds more than `bytes_max`.
    """
    name = os.fspath(path)
    try:
        with open(name, "rb", opener=None if is_waited_for else without_waiting) as file:
            mode = os.fstat(file.fileno()).st_mode
            if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode)):
                raise NoInput(f"{name}: expected a file with {what}, found no file", hint=hint)
            os.set_blocking(file.fileno(), True)
            content = file.read(bytes_max + 1)
            if not content and stat.S_ISFIFO(mode):
                raise NoInput(f"{name}: expected a file with {what}, found no file", hint=hint)
    except IsADirectoryError:
        raise NoInput(f"{name}: expected a file with {what}, found a folder", hint=hint) from None
    except (FileNotFoundError, NotADirectoryError):
        raise NoInput(f"{name}: expected a file with {what}, found none", hint=hint) from None
    except PermissionError:
        raise Denied(f"{name}: not readable by this user", hint=hint) from None
    except ValueError:  # a null byte in the name
        raise NoInput(f"{name!a}: expected the name of a file", hint=hint) from None
    except OSError as error:
        raise IOFailure(f"{name}: {error.strerror}", hint=hint) from None
    if len(content) > bytes_max:
        raise BadData(
            f"{name}: expected {what}, at most {bytes_max:,} bytes, found more", hint=hint
        )
    return content


def without_waiting(name: str, flags: int) -> int:
    """An opener for `open`: a pipe by this name would keep us until somebody writes to it."""
    return os.open(name, flags | os.O_NONBLOCK | os.O_CLOEXEC)
