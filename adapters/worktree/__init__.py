"""What `adapters/workspace.py` is made of: a root that nothing leaves, its files, its git history."""
