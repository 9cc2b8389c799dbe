"""Where a ledger and its keys are, unless somebody says otherwise."""

from __future__ import annotations

from typing import Final

LEDGER: Final = "sqlite:///.causebook/ledger.db"
KEYS: Final = ".causebook/keys"
