"""Witnesses for tests: real ones, over HTTP on the loopback, each with a key known by its name."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from causebook.adapters.signatures import verifier
from causebook.adapters.witness.server import WitnessServer
from causebook.adapters.witness.state import Witness
from causebook.domain.note import NoteKey

from .logs import private_key, witness_key


def make_witness(
    folder: Path, name: str, logs: Iterable[NoteKey], now: Callable[[], float]
) -> Witness:
    """A witness that keeps its state in `folder` and takes the time from `now`."""
    key, private = witness_key(name), private_key(name)
    witness = Witness(key, private.sign, tuple(logs), folder, verifier(), now=now)
    witness.prepare()
    return witness


@contextmanager
def serving(witness: Witness, **settings: float) -> Iterator[WitnessServer]:
    """The witness, answering at `.url` on a thread of its own."""
    server = WitnessServer(witness, **settings)  # type: ignore[arg-type]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
