"""Tools of others that some tests need: a test that has to do without one says what it left out."""

from __future__ import annotations

import shutil

import pytest


def tool(name: str) -> str:
    """The path of a tool. Skips, saying so, where it is not installed."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed: what it says is left out")
    return found
