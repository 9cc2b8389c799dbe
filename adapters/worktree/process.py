"""One process, bounded in bytes and in wall time."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ...domain.errors import IOFailure

COMPLAINT_BYTES_MAX: Final = 2_048
_CHUNK_BYTES = 256 * 1024


class GitFailure(IOFailure):
    """Git did not answer: it failed, ran past its time, or said what cannot be read."""


@dataclass(frozen=True)
class Output:
    """What a process wrote. `cut`: there was more than was asked for, and the process was killed."""

    data: bytes
    code: int
    cut: bool
    complaint: str


def run(
    argv: Sequence[str | bytes],
    *,
    cwd: Path,
    env: dict[str, str],
    stdin: bytes = b"",
    bytes_max: int,
    seconds_max: float,
    take: Callable[[bytes], None] | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Output:
    """Run one program in a process group of its own, keep at most `bytes_max` of what it writes.

    `take` is handed all that it writes, as it comes; then nothing is kept, and time alone is the bound.
    `clock` gives seconds that only grow. Raises `GitFailure` where the program cannot be started, or where it
    still runs, or what it started still holds its output, after `seconds_max` (the group is killed).
    """
    deadline = clock() + seconds_max
    kept, complaint, cut = bytearray(), bytearray(), False
    with tempfile.TemporaryFile() as source:
        source.write(stdin)
        source.seek(0)
        try:
            process = subprocess.Popen(
                argv,
                stdin=source,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=cwd,
                env=env,
                start_new_session=True,
            )
        except OSError as error:
            raise GitFailure(f"git: cannot be started: {os.strerror(error.errno or 0)}") from None
        with process, selectors.DefaultSelector() as ready:
            try:
                for stream, into in ((process.stdout, kept), (process.stderr, complaint)):
                    if stream is not None:
                        ready.register(stream, selectors.EVENT_READ, into)
                while ready.get_map() and not cut:
                    left = deadline - clock()
                    # Asked each time round: a process that never pauses is always ready.
                    events = ready.select(left) if left > 0 else []
                    if not events:
                        raise GitFailure(f"git: no answer within {seconds_max:g} seconds")
                    for key, _ in events:
                        chunk = os.read(key.fd, _CHUNK_BYTES)
                        if not chunk:
                            ready.unregister(key.fileobj)
                        elif key.data is kept and take is not None:
                            take(chunk)
                        elif key.data is kept:
                            kept += chunk
                            cut = len(kept) > bytes_max
                        else:
                            complaint += chunk[: COMPLAINT_BYTES_MAX - len(complaint)]
                if not cut:
                    process.wait(max(0.0, deadline - clock()))
            except subprocess.TimeoutExpired:
                raise GitFailure(f"git: no answer within {seconds_max:g} seconds") from None
            finally:
                # Not `poll`: as long as the leader is not waited for, its id is that of this group alone,
                # and what it started is in there, also after its own end.
                if process.returncode is None:
                    with suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGKILL)
    said = complaint.decode("utf-8", "replace").strip().partition("\n")[0]
    return Output(bytes(kept[:bytes_max]), process.returncode, cut, said)
