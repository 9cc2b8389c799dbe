"""Checking many Ed25519 signatures beside one another, in processes of their own.

Half of what `verify` does is signatures, and Python runs one thread at a time. So they are handed to worker
processes, while this one reads, hashes and folds. A worker is this Python, started afresh
(`signature_worker.py`). No answer depends on its life: what is left open by a worker that cannot be started,
dies, or says anything but an answer is checked here.

Of ours a worker runs what this process runs, file for file; the library is the one installed for its Python,
or where this process has it. It looks for nothing in the working directory, nor along this process's import
path, where other files may lie by now than when this process began.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import IO, Final, Self, cast

from ..domain.record import pae
from .signature_worker import JOB, LENGTH, SEAL_BYTES, answers, seal
from .signatures import Library, verifier

SIGNATURES_MAX: Final = 128
BYTES_MAX: Final = 256 * 1024
"""Of a batch: it is passed on once it has either."""
ALONE_MAX: Final = 4
"""Batches that wait before a worker is started, which takes a tenth of a second: 512 signatures, or 1 MB."""
AHEAD_MAX: Final = 128
"""Batches that wait at most, so that memory is bounded: 16,384 signatures, 40 MB."""
WORKERS_MAX: Final = 4
"""More would be idle: reading and folding a record takes about as long as checking its signature."""
PATIENCE_SECONDS: Final = 10
"""How long a worker has at the end for the two batches it may still have, which take it some 0.02 s."""

_ADAPTERS: Final = __name__.rpartition(".")[0]
_ROOT: Final = _ADAPTERS.rpartition(".")[0]
_PACKAGES: Final = (_ROOT, f"{_ROOT}.domain", _ADAPTERS)
"""What a worker loads is in these, and they load nothing by themselves."""

Place = tuple[int, str, int]
"""(ordinal, stream, version) of a record."""


@dataclass
class _Batch:
    """Signatures to be checked: the places of their records, and what a worker is sent."""

    places: list[Place] = field(default_factory=list)
    packed: bytearray = field(default_factory=bytearray)

    def failing(self, answer: bytes) -> list[Place]:
        return [place for place, holds in zip(self.places, answer, strict=True) if not holds]


class SignatureChecks:
    """Signatures of records, checked in batches, in processes beside this one where there are many.

    with SignatureChecks() as checks:
        checks.add((0, "ledger", 1), public, signature, line)
        failed = checks.finish()                    # the places that do not hold, in order

    `processes`: at most so many beside this one; by default as many as there are other processors, and at
    most 4. With 0 all are checked here.
    """

    def __init__(self, library: Library = "auto", *, processes: int | None = None) -> None:
        self._library: Library = library
        self._verify = verifier(library)
        self._processes = useful_processes() if processes is None else processes
        self._workers: list[_Worker] = []
        self._waiting: SimpleQueue[_Batch | None] = SimpleQueue()
        self._batch = _Batch()
        self._failed: list[Place] = []

    def add(self, place: Place, public: bytes, signature: bytes, line: bytes) -> None:
        """Have the signature checked that a record has over `line`, its line 1 without the LF."""
        if len(public) != 32 or len(signature) != 64:
            self._failed.append(place)
            return
        batch, message = self._batch, pae(line)
        batch.places.append(place)
        batch.packed += JOB.pack(public, signature, len(message)) + message
        if len(batch.places) >= SIGNATURES_MAX or len(batch.packed) >= BYTES_MAX:
            self._pass_on()

    def finish(self) -> list[Place]:
        """Wait for all; the places of those that do not hold, in commit order."""
        self._waiting.put(self._batch)
        while self._check_one():  # beside the workers
            pass
        self._end_waiting()
        for worker in self._workers:
            worker.join()
            self._failed += worker.failed
            for batch in worker.unanswered:
                self._check(batch)
        return sorted(self._failed)

    def _pass_on(self) -> None:
        batch, self._batch = self._batch, _Batch()
        if not self._processes:
            self._check(batch)
            return
        self._waiting.put(batch)
        if not self._workers and self._waiting.qsize() > ALONE_MAX:
            self._start()
        if self._waiting.qsize() > AHEAD_MAX:  # they do not keep up
            self._check_one()

    def _start(self) -> None:
        try:
            for _ in range(self._processes):
                self._workers.append(_Worker(self._library, self._waiting))
        except (OSError, ValueError, RuntimeError):
            # Not possible here: a limit of the system, a path its encoding cannot say, a program that ends.
            self._processes = len(self._workers)

    def _check_one(self) -> bool:
        try:
            batch = self._waiting.get_nowait()
        except Empty:
            return False
        if batch is not None:
            self._check(batch)
        return True

    def _end_waiting(self) -> None:
        for _ in self._workers:
            self._waiting.put(None)

    def _check(self, batch: _Batch) -> None:
        self._failed += batch.failing(answers(self._verify, batch.packed))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for worker in self._workers:
            worker.kill()
        self._end_waiting()
        for worker in self._workers:
            worker.join()


class _Worker:
    """A worker process, and a thread that hands it batches and hears its answers.

    The thread waits for the process nearly all the time, and holds up nothing meanwhile. It hands over the
    next batch before it hears of the last one, so that the process is never without.

    `failed`: the places of those that do not hold. `unanswered`: what the process was to answer and did not.
    """

    def __init__(self, library: Library, batches: SimpleQueue[_Batch | None]) -> None:
        self._process = subprocess.Popen(
            # Isolated: neither a variable of Python's nor the working directory changes what it runs. And it
            # writes no bytecode.
            [sys.executable, "-I", "-B", "-c", _program(library)],
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None if os.environ.get("CAUSEBOOK_DEBUG") else subprocess.DEVNULL,
        )
        self._sink = cast(IO[bytes], self._process.stdin)
        self._source = cast(IO[bytes], self._process.stdout)
        self._batches = batches
        self.failed: list[Place] = []
        self.unanswered: deque[_Batch] = deque()
        self._thread = threading.Thread(target=self._run, name="signatures", daemon=True)
        try:
            self._thread.start()
        except RuntimeError as error:  # the system's limit on threads
            self.kill()
            self._process.wait()
            raise OSError(str(error)) from None

    def kill(self) -> None:
        """End the process, whatever it is doing."""
        self._process.kill()

    def join(self) -> None:
        """Wait until a `None` among the batches has told it that no more follow, or the process is gone.

        One that says nothing for `PATIENCE_SECONDS` is ended, and answers no more.
        """
        self._thread.join(PATIENCE_SECONDS)
        self._process.kill()
        self._thread.join()
        with self._process:
            pass

    def _run(self) -> None:
        # Where a program lets SIGPIPE end it, to write to a worker that is gone would.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGPIPE})
        with suppress(OSError, EOFError):
            while (batch := self._batches.get()) is not None:
                self.unanswered.append(batch)
                self._hand_over(batch)
                if len(self.unanswered) > 1:
                    self._hear()
            while self.unanswered:
                self._hear()

    def _hand_over(self, batch: _Batch) -> None:
        left = memoryview(LENGTH.pack(len(batch.packed)) + batch.packed)
        while left:
            left = left[self._sink.write(left) :]

    def _hear(self) -> None:
        batch = self.unanswered[0]
        count, said = len(batch.places), b""
        while len(said) < count + SEAL_BYTES and (
            some := self._source.read(count + SEAL_BYTES - len(said))
        ):
            said += some
        answer = said[:count]
        if said[count:] != seal(batch.packed, answer):
            raise EOFError  # it is gone, or is no worker
        self.failed += batch.failing(answer)
        self.unanswered.popleft()


def _program(library: Library) -> str:
    """What a worker runs, in ASCII: our packages from where they are, and where else the library may be."""
    packages = {name: list(sys.modules[name].__path__) for name in _PACKAGES}
    beside = [os.path.dirname(path) for path in _library_paths()]
    return (
        "import sys, types\n"
        f"sys.path += {beside!a}\n"
        f"for name, path in {packages!a}.items():\n"
        "    sys.modules[name] = package = types.ModuleType(name)\n"
        "    package.__path__ = path\n"
        f"from {_PACKAGES[-1]}.signature_worker import serve\n"
        f"serve({library!a})\n"
    )


def _library_paths() -> list[str]:
    """Where the libraries that check signatures were loaded from."""
    loaded = [sys.modules[name] for name in ("nacl", "cryptography") if name in sys.modules]
    return [path for module in loaded for path in module.__path__]


def useful_processes() -> int:
    """How many workers are of use: none where this is the only processor, or none can be started rightly.

    None where there is no Python to start, or ours was loaded from a place relative to the working directory,
    which may be another by now.
    """
    places = [path for name in _PACKAGES for path in sys.modules[name].__path__] + _library_paths()
    if os.name != "posix" or not sys.executable or getattr(sys, "frozen", False):
        return 0
    if not all(map(os.path.isabs, places)):
        return 0
    return min(processors() - 1, WORKERS_MAX)


def processors() -> int:
    """How many processors this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1
