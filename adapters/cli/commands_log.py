"""The commands that make and check what others can hold: checkpoints, proofs, bundles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

COMMANDS: Final[dict[str, Callable[..., int]]] = {}
"""In the order of the help."""
