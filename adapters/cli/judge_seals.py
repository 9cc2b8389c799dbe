"""The seals of `causebook judge`: when its panel is convened, and after what follows from its decision."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...domain.errors import BadData, CausebookError, SealRefused
from ..ledger import Ledger


@dataclass
class Seals:
    """Seals a ledger where its log key is at hand; where it is not, judging goes on and `missing` says why.

    What contradicts an earlier seal, or a record that does not hold, is raised: nothing is to be built on it.
    `wait_seconds`: for others who seal the same ledger.
    """

    ledger: Ledger
    wait_seconds: float
    missing: str = ""

    def check(self) -> None:
        """Before anything is recorded: raise `SealRefused` or `BadData` as sealing would."""
        self._do(lambda: self.ledger.sealer.check(wait_seconds=self.wait_seconds))

    def seal(self) -> None:
        """Seal what is recorded. Raises `SealRefused`, `BadData`; once: then it seals no more."""
        if not self.missing:
            self._do(lambda: self.ledger.seal(wait_seconds=self.wait_seconds))

    def _do(self, act: Callable[[], object]) -> None:
        try:
            act()
        except CausebookError as error:
            self.missing = error.message
            if isinstance(error, SealRefused | BadData):
                raise
