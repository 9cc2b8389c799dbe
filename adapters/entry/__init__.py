"""causebook: the audit ledger for decisions made by LLM judges."""

__version__ = "0.1.0"
