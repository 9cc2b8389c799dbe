"""`causebook demo`: the main job, from founding to replay, each step as the command a person would type."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, chdir, contextmanager
from pathlib import Path
from typing import Final

from ...domain.canonical import escaped_bytes
from ...domain.errors import CausebookError, IOFailure, Misuse
from ..demo import EXPECTED, EXPECTED_EXIT, SPEC, TASK, set_stage
from ..demo_tampering import TAMPERINGS, tampered
from .terminal import ReaderGone, out

_AT: Final = ("--ledger", "sqlite:///ledger.db")
_KEYS: Final = ("--keys", "keys")
_STATE: Final = "CAUSEBOOK_STATE"
_SETTINGS: Final = ("CAUSEBOOK_LEDGER", "CAUSEBOOK_KEYS", "CAUSEBOOK_PASSPHRASE", _STATE)


Run = Callable[[Sequence[str]], int]
"""Runs one command, and answers its exit code."""


def demo(keep: str | None, run: Run) -> int:
    """Play it in a folder of its own, or in `keep`; 0 where the panel ended as recorded."""
    page = out()
    with ExitStack() as stack:
        if keep is None:
            made = stack.enter_context(tempfile.TemporaryDirectory(prefix="causebook-demo-"))
            folder = Path(made)
        else:
            folder = Path(os.path.realpath(keep))
            if escaped_bytes(str(folder)) is None:
                raise Misuse(
                    "--keep: expected a path in UTF-8", hint="the ledger's URL has to name it"
                )
        set_stage(folder)
        stack.enter_context(_at(folder))
        page.paragraph(
            "A reset link is to work once, for 30 minutes. The change does neither. Four judges on "
            "recorded answers look at it: one passes it, one warns, one reads in circles, and one "
            "never gives a verdict."
        )
        _step(run, "init", *_AT, *_KEYS, "--origin", "demo.example/shop")
        _step(
            run, "judge", TASK, *_AT, *_KEYS, "--protocol", "protocol.toml",
            "--workspace", "repository", "--spec", SPEC,
            expected=EXPECTED_EXIT,
        )  # fmt: skip
        _step(run, "why", TASK, *_AT)
        _step(run, "verify", *_AT)
        _step(run, "replay", TASK, *_AT)
        _second_act(run, folder)
        verdicts = _verdicts()
        if verdicts != EXPECTED:
            raise _otherwise(f"{EXPECTED}, found {verdicts}")
    page.line("")
    page.paragraph(
        "The first two are found by whoever looks. The third is found since somebody looked before: verify "
        "keeps what it saw in a state folder of its user's (here, of the demo's), and holds the next look "
        "against it. Whoever holds all the keys could still have written all of it anew before the first "
        "look: that takes a witness, or a root key that lives elsewhere."
    )
    page.line("")
    page.line("What to type next:")
    program = _program(elsewhere=keep is not None)
    if keep is not None:
        page.line("  # the state beside it is what verify remembers of it, apart from your own")
        page.line(f"  cd {shlex.quote(keep)}; export {_STATE}=$PWD/state")
        for words in (f"log {TASK}", f"why {TASK} --judge security", f"evidence {TASK}"):
            page.line(f"  {program} {words} {' '.join(_AT)}")
    else:
        page.line("  # keep the repository, the ledger and the keys")
        page.line(f"  {program} demo --keep DIR")
    page.line("  # put your own work before a panel")
    page.line(f"  {program} judge --help")
    return 0


def _program(*, elsewhere: bool) -> str:
    """What to type for this program, here or `elsewhere`: its name where the shell finds it, or its place."""
    called = os.path.abspath(sys.argv[0])
    if shutil.which("causebook") or os.path.basename(called) != "causebook":
        return "causebook"
    return shlex.quote(called if elsewhere else os.path.relpath(called))


def _second_act(run: Run, folder: Path) -> None:
    """Tamper with copies of the ledger, as whoever has the file can, and verify each."""
    page = out()
    page.line("")
    page.paragraph(
        "Now what whoever has the file can do, without a key: three copies, each tampered with."
    )
    for name, (what, tamper, code) in TAMPERINGS.items():
        tampered(folder / "ledger.db", folder / name, tamper)
        page.line("")
        page.line(f"# {name}: {what}")
        at = f"sqlite:///{name}"
        _step(run, "verify", "--brief", "--ledger", at, gap=False, expected=code)


def _step(run: Run, *arguments: str, gap: bool = True, expected: int = 0) -> None:
    """Run one command. Raises `CausebookError` where it ends otherwise than it was recorded to."""
    page = out()
    if gap:
        page.line("")
    page.command("$ ", "causebook " + " ".join(shlex.quote(argument) for argument in arguments))
    code = run(arguments)
    if code == IOFailure.exit_code:
        raise ReaderGone  # the step found its pipe closed, and said what there was to say
    if code != expected:
        raise _otherwise(f"exit {expected} of {arguments[0]}, found {code}")


def _otherwise(what: str) -> CausebookError:
    return CausebookError(
        f"demo: expected {what}",
        hint="the recorded answers no longer come to what they came to: a fault of causebook",
    )


@contextmanager
def _at(folder: Path) -> Iterator[None]:
    """In `folder`, without what the caller's environment says about another ledger; pins go to `state`."""
    kept = {name: os.environ.pop(name) for name in _SETTINGS if name in os.environ}
    os.environ[_STATE] = str(folder / "state")
    try:
        with chdir(folder):
            yield
    finally:
        del os.environ[_STATE]
        os.environ.update(kept)


def _verdicts() -> dict[str, tuple[str, int, int]]:
    """Each judge's verdict, its turns charged and all its turns, as the ledger has them."""
    from ...projections.halt_payload import halt_payload
    from ..task_check import task_rows
    from .reading import read

    facts = read(_AT[1], lambda snapshot: task_rows(snapshot, TASK)).facts()
    return {
        result["judge"]: (
            "error" if result["error"] else result["severity"],
            result["turns_used"],
            result["turns"],
        )
        for result in halt_payload(facts)["validator_results"]
    }
