"""The `kedge` command, also as `python -m kedge`.

Nothing is imported before Ctrl-C is caught, so that it ends the command without a traceback from the start.
"""


def main() -> None:
    """Entry point; ends the process."""
    try:
        from kedge.cli.main import main as command

        command()
    except KeyboardInterrupt:
        raise SystemExit(130) from None  # errors.EXIT_INTERRUPTED


if __name__ == "__main__":
    main()
