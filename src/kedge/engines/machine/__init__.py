"""What every engine that uses this very machine shares: its GPUs, ports, limits, and memory for secrets."""
