"""The seals of `causebook judge`: when its panel is convened, and after what follows from its decision."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from ...domain.errors import Busy
from ..ledger import Ledger
from ..sealing.seal import NoLogKey

_POLL_SECONDS: Final = 0.05


@dataclass
class Seals:
    """Seals a ledger where its log key is at hand; where it is not, judging goes on and `missing` says why.

    So it does where others seal the same ledger for longer than `wait_seconds`: it is tried again the next
    time. Everything else is raised: what contradicts an earlier seal, a record that does not hold, a disk or
    a store that fails. Nothing is to be built on it.
    """

    ledger: Ledger
    wait_seconds: float
    missing: str = ""
    _has_key: bool = field(default=True, init=False)

    def check(self) -> None:
        """Before anything is recorded: raise as sealing would."""
        self._do(lambda wait: self.ledger.sealer.check(wait_seconds=wait))

    def seal(self) -> None:
        """Seal what is recorded; without a log key, do nothing."""
        if self._has_key:
            self._do(lambda wait: self.ledger.seal(wait_seconds=wait))

    def _do(self, act: Callable[[float], object]) -> None:
        deadline = time.monotonic() + self.wait_seconds
        while True:
            try:
                act(max(0.0, deadline - time.monotonic()))
                self.missing = ""
                return
            except NoLogKey as error:
                self.missing, self._has_key = error.message, False
                return
            except Busy as error:
                if time.monotonic() >= deadline:
                    self.missing = error.message
                    return
            time.sleep(_POLL_SECONDS)
