"""A ledger to attack, and its untouched twin, which passes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.adapters.forge import Forge, reads, small_ledger, verdict
from tests.attacks.intruder import Intruder, looked_at, stored


@pytest.fixture
def forge() -> Forge:
    """Two tasks, judged and halted or completed."""
    forge = small_ledger("T-1")
    forge.open_task("T-2")
    forge.panel("T-2", {"security": [reads("a.py"), verdict("pass")]})
    return forge


@pytest.fixture
def intruder(forge: Forge, store_url: str) -> Iterator[Intruder]:
    """An intruder in a store whose ledger was found intact a moment ago."""
    stored(forge, store_url)
    untouched = looked_at(store_url)
    assert (untouched.code, untouched.findings) == (20, [])
    with Intruder(store_url) as intruder:
        yield intruder
