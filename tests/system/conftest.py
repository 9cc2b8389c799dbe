"""The options of the system tests."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--scripts",
        type=int,
        default=2_000,
        help="how many random scripts of model behaviour are judged (name tests/system as well)",
    )
