"""The `kedge` command, also as `python -m kedge`.

Nothing is imported before Ctrl-C is caught, so that it ends the command without a traceback from the start.
"""

import os  # every Python process has it


def main() -> None:
    """Entry point; ends the process."""
    try:
        from kedge.cli.main import main as command

        command()
    except MemoryError:  # there is none even for the first imports
        os.write(2, b"error: too little memory: allow more (ulimit -v, the container's limit)\n")
        raise SystemExit(4) from None  # errors.EXIT_CANNOT_RUN
    except KeyboardInterrupt:
        raise SystemExit(130) from None  # errors.EXIT_INTERRUPTED


if __name__ == "__main__":
    main()
