"""`python -m kedge`."""

from kedge.cli.main import main

if __name__ == "__main__":
    main()
