"""What is handed to others: the sealed log read, proofs out of it, tiles, attestations."""
