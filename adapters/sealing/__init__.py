"""Sealing: the tree grown over new records, and a checkpoint signed over it."""
