"""Where the vectors and transcripts that others wrote lie: beside the repository, and not in it."""

from __future__ import annotations

from pathlib import Path

import pytest

SHARED = Path(__file__).parents[2].parent / "shared"


def shared(*parts: str) -> Path:
    """A file or folder that others wrote. Skips the test, saying so, where it is absent."""
    path = SHARED.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"not at hand: ../shared/{'/'.join(parts)}")
    return path
