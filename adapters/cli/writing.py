"""What the commands that write have in common: opening, and what is due after a write."""

from __future__ import annotations

import time
from typing import Any, Final

from ...domain.errors import Busy, CausebookError
from ...projections.halt_payload import halt_payload
from ..ledger import Ledger
from ..projector import catch_up
from ..task_check import task_rows
from .passphrase import passphrase_from
from .reading import read
from .terminal import warn

PROJECTOR_WAIT_SECONDS_MAX: Final = 10.0


def open_ledger(
    url: str,
    keys: str,
    passphrase_file: str | None,
    lock_timeout_seconds: float,
    *,
    ask_once: bool = False,
) -> Ledger:
    """The ledger at `url`, to be written to. `ask_once`: for one passphrase, whichever keys are needed."""
    return Ledger.open(
        url,
        keys=keys,
        passphrase=passphrase_from(passphrase_file, once=ask_once),
        lock_timeout_seconds=lock_timeout_seconds,
    )


def bring_up_to_date(ledger: Ledger) -> None:
    """Bring the projections up to date.

    They can be made again at any time, so no decision hangs on them: what goes wrong is a warning. One
    projector works at a time, and others that judge beside us come and go.
    """
    deadline = time.monotonic() + PROJECTOR_WAIT_SECONDS_MAX
    while True:
        try:
            catch_up(ledger.store)
        except Busy as error:
            if time.monotonic() < deadline:
                time.sleep(0.05)
                continue
            _lagging(error)
        except CausebookError as error:
            _lagging(error)
        return


def _lagging(error: CausebookError) -> None:
    warn(f"the projections lag: {error.message}; causebook rebuild brings them up to date")


def payload_of(url: str, task: str) -> dict[str, Any]:
    """The halt payload of a task, as it is stored now."""
    return halt_payload(read(url, lambda snapshot: task_rows(snapshot, task)).facts())
