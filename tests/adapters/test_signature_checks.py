"""Many signatures are checked by other processes, and no answer depends on whether those live."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from causebook.adapters import signature_checks
from causebook.adapters.signature_checks import (
    AHEAD_MAX,
    ALONE_MAX,
    SIGNATURES_MAX,
    Place,
    SignatureChecks,
)
from causebook.adapters.signature_worker import SEAL_BYTES
from causebook.adapters.signatures import Library
from causebook.domain.record import pae
from tests.adapters.forge import Key

KEY = Key("signatures")
ALONE = ALONE_MAX * SIGNATURES_MAX
"""So many signatures are checked without another process."""
LINES = [b"%d" % n for n in range(ALONE + 10 * SIGNATURES_MAX + 7)]
SIGNATURES = [KEY.sign(pae(line)) for line in LINES]
BAD = {0, 3, SIGNATURES_MAX - 1, SIGNATURES_MAX, ALONE + 5, len(LINES) - 1}


def place(n: int) -> Place:
    return n, "task/T", n + 1


def add(checks: SignatureChecks, numbers: Sequence[int]) -> None:
    """Add the signatures of these lines, where `BAD` those of another line."""
    for n in numbers:
        checks.add(place(n), KEY.public, SIGNATURES[n - 1 if n in BAD else n], LINES[n])


def require_all_found(checks: SignatureChecks) -> None:
    assert checks.finish() == [place(n) for n in sorted(BAD)]


def pids(checks: SignatureChecks) -> list[int]:
    return [worker._process.pid for worker in checks._workers]


def is_gone(pid: int) -> bool:
    """Whether a process has ended; nobody may have asked yet how."""
    said = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], stdout=subprocess.PIPE, text=True)
    return said.stdout.strip() in ("", "Z", "Z+")


@pytest.mark.parametrize("processes", [0, 1, 3])
@pytest.mark.parametrize("library", ["openssl", "libsodium"])
def test_those_that_fail_are_named_in_order(processes: int, library: Library) -> None:
    with SignatureChecks(library, processes=processes) as checks:
        add(checks, range(len(LINES)))
        assert len(pids(checks)) == processes
        require_all_found(checks)


def test_a_few_start_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(*_: Any, **__: Any) -> None:
        raise AssertionError("a process for so few")

    monkeypatch.setattr(subprocess, "Popen", start)
    with SignatureChecks(processes=2) as checks:
        add(checks, range(ALONE))
        assert checks.finish() == [place(n) for n in sorted(BAD) if n < ALONE]


@pytest.mark.parametrize("lengths", [(31, 64), (33, 64), (32, 63), (32, 65), (0, 0)])
def test_what_is_no_key_or_no_signature_by_its_length_does_not_hold(
    lengths: tuple[int, int],
) -> None:
    """A worker is sent both at a fixed length, and would take the bytes after for the rest."""
    with SignatureChecks(processes=1) as checks:
        add(checks, range(len(LINES)))
        public, signature = (KEY.public + b"\0")[: lengths[0]], bytes(lengths[1])
        checks.add((len(LINES), "x", 1), public, signature, b"")
        assert checks.finish() == [*(place(n) for n in sorted(BAD)), (len(LINES), "x", 1)]


@pytest.mark.parametrize("python", ["/nonexistent/python", "/bin/false", "/bin/cat", ""])
def test_without_a_python_to_start_all_are_checked_here(
    python: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not there, ends at once, or is something else, which understands none of it."""
    monkeypatch.setattr(sys, "executable", python)
    with SignatureChecks(processes=2) as checks:
        add(checks, range(len(LINES)))
        require_all_found(checks)


def python_that(does: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put something else in the place of the Python that a worker is started with."""
    path = folder / "python"
    path.write_text(f"#!{sys.executable} -I\nimport sys, time\n{does}\n")
    path.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(path))


@pytest.mark.parametrize("before", ["", "a line that something prints where a Python starts\n"])
def test_an_answer_that_is_none_counts_for_nothing(
    before: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says of everything that it holds, at the length of an answer, and reads on."""
    does = (
        f"sys.stdout.write({before!r}); source = sys.stdin.buffer\n"
        "while head := source.read(4):\n"
        "    source.read(int.from_bytes(head, 'big'))\n"
        f"    sys.stdout.write(chr(1) * {SIGNATURES_MAX + SEAL_BYTES}); sys.stdout.flush()"
    )
    python_that(does, tmp_path, monkeypatch)
    with SignatureChecks(processes=1) as checks:
        add(checks, range(len(LINES)))
        require_all_found(checks)


@pytest.mark.parametrize("does", ["time.sleep(10_000)", "sys.stdin.read(); time.sleep(10_000)"])
def test_a_worker_that_says_nothing_is_waited_for_no_longer_than_for_one_that_works(
    does: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signature_checks, "PATIENCE_SECONDS", 0.01)
    python_that(does, tmp_path, monkeypatch)
    with SignatureChecks(processes=2) as checks:
        add(checks, range(len(LINES)))
        workers = pids(checks)
        require_all_found(checks)
    assert len(workers) == 2
    assert all(is_gone(pid) for pid in workers)


@pytest.mark.parametrize("killed", [[0], [0, 1]])
def test_what_a_worker_that_died_did_not_answer_is_checked_here(killed: list[int]) -> None:
    with SignatureChecks(processes=2) as checks:
        add(checks, range(ALONE + 2 * SIGNATURES_MAX))
        for number in killed:
            os.kill(pids(checks)[number], signal.SIGKILL)
        add(checks, range(ALONE + 2 * SIGNATURES_MAX, len(LINES)))
        require_all_found(checks)


def test_what_waits_for_workers_that_do_not_answer_is_bounded() -> None:
    with SignatureChecks(processes=1) as checks:
        add(checks, range(ALONE + SIGNATURES_MAX))
        (pid,) = pids(checks)
        os.kill(pid, signal.SIGSTOP)
        for n in range((AHEAD_MAX + 9) * SIGNATURES_MAX):
            checks.add((len(LINES) + n, "x", 1), KEY.public, SIGNATURES[0], LINES[0])
        assert checks._waiting.qsize() <= AHEAD_MAX
        os.kill(pid, signal.SIGCONT)
        assert checks.finish() == [place(n) for n in sorted(BAD) if n < ALONE + SIGNATURES_MAX]


@pytest.mark.parametrize("finished", [True, False])
def test_no_process_is_left(finished: bool) -> None:
    with SignatureChecks(processes=2) as checks:
        add(checks, range(len(LINES)))
        workers = pids(checks)
        if finished:
            require_all_found(checks)
    assert workers
    assert all(is_gone(pid) for pid in workers)


def test_no_process_outlives_the_one_that_started_it() -> None:
    """Killed, nobody tells its workers to end: their input does."""
    program = f"""
import os, signal
from tests.adapters.test_signature_checks import LINES, SignatureChecks, add, pids
checks = SignatureChecks(processes=2)
add(checks, range({ALONE} + 3 * {SIGNATURES_MAX}))
print(*pids(checks), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    ran = subprocess.run(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]
    )
    assert ran.returncode == -signal.SIGKILL
    workers = [int(pid) for pid in ran.stdout.split()]
    assert len(workers) == 2
    for _ in range(6_000):
        if all(is_gone(pid) for pid in workers):
            return
        time.sleep(0.01)
    raise AssertionError(f"of {workers} one is still there")


def test_a_worker_loads_the_one_library_and_little_else() -> None:
    """It is waited for."""
    program = (
        "import sys; from causebook.adapters.signature_worker import verifier; verifier('libsodium');"
        " print(*sys.modules)"
    )
    loaded = subprocess.run(
        [sys.executable, "-I", "-c", program], stdout=subprocess.PIPE, check=True, text=True
    ).stdout.split()
    assert "nacl" in loaded
    assert not {"pydantic", "cryptography", "orjson", "rich", "eventsourcing"} & set(loaded)


def test_a_program_frozen_into_one_file_is_not_started_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """There the executable is the program itself, and no Python that takes a command."""
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert signature_checks.useful_processes() == 0


HOSTILE = """
import os, sys
from tests.adapters.test_signature_checks import BAD, LINES, SignatureChecks, add, pids, place
os.chdir(sys.argv[1])
sys.path.insert(0, "")
with SignatureChecks("openssl", processes=1) as checks:
    add(checks, range(len(LINES)))
    assert pids(checks)
    assert checks.finish() == [place(n) for n in sorted(BAD)]
"""


def test_what_lies_in_the_working_directory_by_now_is_not_run(tmp_path: Path) -> None:
    """Somebody else's archive, say, unpacked where a program works that looks for modules there."""
    for name in ("causebook/__init__", "struct", "hashlib", "types", "causebook/adapters/__init__"):
        path = tmp_path / f"{name}.py"
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text("open('ran', 'w').close()\n")
    (tmp_path / "causebook/adapters/signature_worker.py").write_text(
        "import sys\n"
        "from hashlib import sha256\n"
        "def serve(library):\n"
        "    while head := sys.stdin.buffer.read(4):\n"
        "        batch = sys.stdin.buffer.read(int.from_bytes(head, 'big'))\n"
        f"        answer = bytes([1]) * {SIGNATURES_MAX}\n"
        "        sys.stdout.buffer.write(answer + sha256(batch + answer).digest())\n"
        "        sys.stdout.buffer.flush()\n"
    )
    here = Path(__file__).parents[2]
    ran = subprocess.run(
        [sys.executable, "-c", HOSTILE, str(tmp_path)],
        cwd=here,
        env={**os.environ, "PYTHONPATH": str(here)},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    assert not (tmp_path / "ran").exists()


def test_code_that_was_loaded_from_a_relative_place_is_not_looked_for_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The working directory may be another by now."""
    monkeypatch.setattr(sys.modules["causebook.domain"], "__path__", ["domain"])
    assert signature_checks.useful_processes() == 0


def test_a_program_that_a_broken_pipe_ends_is_not_ended_by_a_worker_that_is_gone() -> None:
    program = """
import signal, sys
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
sys.executable = "/bin/false"
from tests.adapters.test_signature_checks import BAD, LINES, SignatureChecks, add, place
with SignatureChecks(processes=2) as checks:
    add(checks, range(len(LINES)))
    assert checks.finish() == [place(n) for n in sorted(BAD)]
"""
    ran = subprocess.run([sys.executable, "-c", program], cwd=Path(__file__).parents[2])
    assert ran.returncode == 0


def test_where_a_path_cannot_be_said_all_are_checked_here(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise UnicodeEncodeError("ascii", "\u20ac", 0, 1, "ordinal not in range")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    with SignatureChecks(processes=2) as checks:
        add(checks, range(len(LINES)))
        require_all_found(checks)
