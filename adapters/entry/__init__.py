"""causebook: the audit ledger for decisions made by LLM judges.

    from causebook import Judge, Ledger, ReadResult, Response, ToolCall

`Ledger` founds and opens a ledger; what it hands out puts a judge loop of any kind on it. `verify` checks
one, as the command does. `ReadMemory` is the interception of repeat reads by itself, for a loop that judges
nothing. Nothing here needs litellm.

Names load when they are first used, so that `import causebook` costs next to nothing and a command that only
reads never loads what only writers need.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .adapters.attempt import Attempt
    from .adapters.findings import Report
    from .adapters.ledger import Ledger, TaskHandle
    from .adapters.panel import Panel
    from .adapters.seat import Judge, Seat
    from .adapters.verification.audit import verify
    from .domain.errors import (
        BadData,
        Busy,
        CannotCreate,
        CausebookError,
        Denied,
        IOFailure,
        Misuse,
        NoInput,
        StoreUnavailable,
        VersionConflict,
    )
    from .domain.events import PanelDecided, WorkspaceFacts
    from .domain.ports import (
        Model,
        ModelFault,
        ReadResult,
        Request,
        Response,
        ToolCall,
        Workspace,
    )
    from .domain.reads import Read, ReadMemory, Repeat

__version__ = "0.1.0"

_HOMES = {
    "Attempt": "adapters.attempt",
    "BadData": "domain.errors",
    "Busy": "domain.errors",
    "CannotCreate": "domain.errors",
    "CausebookError": "domain.errors",
    "Denied": "domain.errors",
    "IOFailure": "domain.errors",
    "Judge": "adapters.seat",
    "Ledger": "adapters.ledger",
    "Misuse": "domain.errors",
    "Model": "domain.ports",
    "ModelFault": "domain.ports",
    "NoInput": "domain.errors",
    "Panel": "adapters.panel",
    "PanelDecided": "domain.events",
    "Read": "domain.reads",
    "ReadMemory": "domain.reads",
    "ReadResult": "domain.ports",
    "Repeat": "domain.reads",
    "Report": "adapters.findings",
    "Request": "domain.ports",
    "Response": "domain.ports",
    "Seat": "adapters.seat",
    "StoreUnavailable": "domain.errors",
    "TaskHandle": "adapters.ledger",
    "ToolCall": "domain.ports",
    "VersionConflict": "domain.errors",
    "Workspace": "domain.ports",
    "WorkspaceFacts": "domain.events",
    "verify": "adapters.verification.audit",
}

__all__ = [
    "Attempt",
    "BadData",
    "Busy",
    "CannotCreate",
    "CausebookError",
    "Denied",
    "IOFailure",
    "Judge",
    "Ledger",
    "Misuse",
    "Model",
    "ModelFault",
    "NoInput",
    "Panel",
    "PanelDecided",
    "Read",
    "ReadMemory",
    "ReadResult",
    "Repeat",
    "Report",
    "Request",
    "Response",
    "Seat",
    "StoreUnavailable",
    "TaskHandle",
    "ToolCall",
    "VersionConflict",
    "Workspace",
    "WorkspaceFacts",
    "__version__",
    "verify",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'causebook' has no attribute {name!r}")
    return getattr(import_module(f".{home}", __name__), name)


def __dir__() -> list[str]:
    return sorted(__all__)
