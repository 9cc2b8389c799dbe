"""The one place that turns a model's name into a model."""

from __future__ import annotations

import math
from typing import Final

from ...domain.errors import Misuse
from ...domain.ports import Model
from .litellm_model import LiteLLMModel
from .script import ScriptedModel

SCRIPT_PREFIX: Final = "script:"
TIMEOUT_SECONDS: Final = 120.0
"""How long one try may take, by default."""


def model_for(name: str, *, timeout_seconds: float = TIMEOUT_SECONDS) -> Model:
    """The model called `name`: `script:FILE` answers from a file, any other name goes to litellm.

    Each judge gets one of its own: a script begins at its first line for each. `timeout_seconds` bounds one
    try. litellm is not imported before the first call.

    Raises `Misuse` for a name or a time that cannot be meant; `NoInput`, `Denied`, `IOFailure` or `BadData`
    for a script that cannot be read.
    """
    if not (math.isfinite(timeout_seconds) and timeout_seconds > 0):
        raise Misuse(
            f"model timeout: expected a number of seconds above 0, found {timeout_seconds}"
        )
    if name.startswith(SCRIPT_PREFIX):
        path = name.removeprefix(SCRIPT_PREFIX)
        if not path:
            raise Misuse(
                "model: expected a file after script:, found none",
                hint="for example --model script:answers.jsonl",
            )
        return ScriptedModel(path)
    if not name.strip():
        raise Misuse("model: expected a name, found none", hint="for example --model openai/gpt-4o")
    return LiteLLMModel(name, timeout_seconds=timeout_seconds)
