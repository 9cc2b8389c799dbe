"""What follows from the events, and nothing else: pure folds, without clock, disk or network.

`facts.py` is what a projection reads, `catalogue.py` lists the projections that a store keeps.
"""
