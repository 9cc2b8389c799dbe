"""Checking a whole ledger: the pass over its records, and what it is held against."""
