"""Models behind `domain.ports.Model`: one through litellm, one read from a file, and the retry policy."""
