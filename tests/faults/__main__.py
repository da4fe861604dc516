"""`python -m tests.faults`: the soak."""

from .soak import main

main()
