"""The `kedge` command, also as `python -m kedge`.

Nothing is imported before Ctrl-C is caught, so that it ends the command without a traceback from the start.
"""

# Every Python process has these three.
import gc
import os
import sys

_SELDOM = 50_000  # new objects between collections, not 700: what a command loads leaves no garbage


def main() -> None:
    """Entry point; ends the process."""
    gc.set_threshold(_SELDOM)
    try:
        _catch_quit()
        from kedge.cli.main import main as command

        command()
    except MemoryError:  # there is none even for the first imports
        os.write(2, b"error: too little memory: allow more (ulimit -v, the container's limit)\n")
        raise SystemExit(4) from None  # errors.EXIT_CANNOT_RUN
    except KeyboardInterrupt:
        raise SystemExit(130) from None  # errors.EXIT_INTERRUPTED


def _catch_quit() -> None:
    """Until kedge run can tell what Ctrl-\\ means (cli.stop_requests), it means that nothing has been submitted."""
    import signal

    def quit(number: int, frame: object) -> None:
        os.write(2, b"kedge: the job has not been submitted\n")
        os._exit(130)  # errors.EXIT_INTERRUPTED

    if sys.argv[1:2] in (["run"], ["rerun"]) and signal.getsignal(signal.SIGQUIT) == signal.SIG_DFL:
        signal.signal(signal.SIGQUIT, quit)


if __name__ == "__main__":
    main()
