"""litellm, imported late, quiet, and held to one try a call.

It is imported with the first call and not before [6 s]. Settings of litellm that only exist for the whole
process are set there, for whoever else uses it too: `drop_params`, `modify_params` and `telemetry` off,
`suppress_debug_info` on, its loggers silent, and `client_session`, unless the embedding program has set that,
which then costs the limits of `wire.py`.
"""

from __future__ import annotations

import functools
import importlib
import logging
import os
import sys
import threading
import warnings
from importlib import metadata
from typing import TYPE_CHECKING, Any, Final

from ...domain.errors import Misuse

if TYPE_CHECKING:
    import httpx

_LOGGERS: Final = ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy")
_WARNINGS: Final = (".*`ReadOnly` qualifier",)
_LOADING: Final = threading.Lock()


@functools.cache
def _client() -> httpx.Client:
    from .wire import reporting_client

    return reporting_client()


def library() -> tuple[Any, httpx.Client]:
    """litellm, imported once and quiet, and the HTTP client that reports. Raises `Misuse`."""
    with _LOADING:
        try:
            litellm = _imported()
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] != "litellm":
                raise
            raise Misuse(
                "a live model needs litellm, which is not installed",
                hint="install causebook with its extra 'judge' (README, Install)",
            ) from None
        client = _client()
        for name in _LOGGERS:
            logging.getLogger(name).disabled = True
        if litellm.client_session is None:
            litellm.client_session = client
        # Every time, for it is cheap, and what was undone since is done again. litellm goes on importing
        # parts of itself during calls; what pydantic has to say about them is of no use to a judge's user.
        for words in _WARNINGS:
            warnings.filterwarnings("ignore", message=words)
        # The environment (LITELLM_DROP_PARAMS) or the program around us may turn them on.
        litellm.drop_params = False
        litellm.modify_params = False
        litellm.telemetry = False
        litellm.suppress_debug_info = True
        return litellm, client


def _imported() -> Any:
    if "litellm" in sys.modules:
        return importlib.import_module("litellm")
    # Set for good: without it, litellm fetches its price list from the network, at import and later.
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    # Only for the import: in its default mode litellm reads a `.env` it finds above the place it is installed
    # in, which may be the very tree under judgement, and lets that redirect requests.
    mode = os.environ.get("LITELLM_MODE")
    os.environ["LITELLM_MODE"] = "PRODUCTION"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module("litellm")
    finally:
        if mode is None:
            del os.environ["LITELLM_MODE"]
        else:
            os.environ["LITELLM_MODE"] = mode


def provider(litellm: Any, model: str, api_base: str | None) -> str:
    """The provider that litellm takes `model` for; "" where it knows none, and the call will say so."""
    try:
        return str(litellm.get_llm_provider(model=model, api_base=api_base)[1])
    except Exception:  # noqa: BLE001 the same exception comes again from the call, and is recorded there
        return ""


def version() -> str:
    """The version of litellm that is installed."""
    return metadata.version("litellm")
