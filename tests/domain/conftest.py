"""The Hypothesis profile of the domain's tests: no deadline, and in CI the same examples every time."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

settings.register_profile(
    "domain",
    deadline=None,
    derandomize=bool(os.environ.get("CI")),
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("domain")
