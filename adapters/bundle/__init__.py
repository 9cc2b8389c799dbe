"""Bundles: one task of a ledger in one file, for somebody who has nothing else."""
