"""A witness (C2SP tlog-witness): it cosigns the checkpoints of logs it knows, while each only grows."""
