"""The `kedge` command, also as `python -m kedge`.

Nothing is imported before Ctrl-C is caught, so that it ends the command without a traceback from the start.
"""

# Every Python process has these two.
import gc
import os

_SELDOM = 50_000  # new objects between collections, not 700: what a command loads leaves no garbage


def main() -> None:
    """Entry point; ends the process."""
    gc.set_threshold(_SELDOM)
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
