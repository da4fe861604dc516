"""Adds numbers slowly, and saves its state when it gets SIGUSR1."""

import argparse
import json
import os
import signal
import time
from pathlib import Path

STEP_SEC = 0.1


def main() -> None:
    """Go on from the checkpoint, or start if there is none."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--checkpoint", type=Path, required=True)
    options = parser.parse_args()
    asked = []
    signal.signal(signal.SIGUSR1, lambda *_: asked.append(True))
    output = Path(os.environ["KEDGE_OUTPUT_DIR"])
    (output / "ready").touch()
    state = json.loads(options.checkpoint.read_text()) if options.checkpoint.exists() else {"step": 0, "sum": 0}
    print(f"started after step {state['step']}", flush=True)
    while state["step"] < options.steps:
        time.sleep(STEP_SEC)
        state = {"step": state["step"] + 1, "sum": state["sum"] + state["step"] + 1}
        if asked:
            asked.clear()
            save(options.checkpoint, state)
            (output / "saved").touch()
            print(f"saved step {state['step']}", flush=True)
    print(f"the sum is {state['sum']}")


def save(path: Path, state: dict) -> None:
    """Write the file so that it is never half written."""
    new = path.with_suffix(".new")
    new.write_text(json.dumps(state))
    new.replace(path)


if __name__ == "__main__":
    main()
