"""Fits a line to points, with a checkpoint after every epoch."""

import argparse
import json
import os

POINTS = [(x / 10, 3 * x / 10 + 2) for x in range(-10, 11)]
RATE = 0.3


def main() -> None:
    """Train from the checkpoint, or from the start if there is none."""
    options = parse()
    state = load(options.checkpoint) or {"epoch": 0, "slope": 0.0, "offset": 0.0}
    first = state["epoch"]
    print(f"resumed after epoch {first}" if first else "started without a checkpoint", flush=True)
    while state["epoch"] < options.epochs:
        state, loss = trained(state)
        print(f"epoch {state['epoch']} loss {loss:.6f}", flush=True)
        save(options.checkpoint, state)
        if state["epoch"] == options.fail_after and not first:
            raise RuntimeError("a failure in the middle, as this example wants it")
    save(options.result, {"slope": state["slope"], "offset": state["offset"]})
    print(f"line with slope {state['slope']:.2f} and offset {state['offset']:.2f}")


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, required=True)
    parser.add_argument("--fail-after", type=int, default=0)
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--result", required=True)
    return parser.parse_args()


def trained(state: dict) -> tuple[dict, float]:
    """The state after one more epoch, and the mean squared error before it."""
    errors = [(x, state["slope"] * x + state["offset"] - y) for x, y in POINTS]
    return {
        "epoch": state["epoch"] + 1,
        "slope": state["slope"] - RATE * sum(x * error for x, error in errors) / len(errors) * 2,
        "offset": state["offset"] - RATE * sum(error for _, error in errors) / len(errors) * 2,
    }, sum(error * error for _, error in errors) / len(errors)


def load(path: str) -> dict | None:
    """The last checkpoint, if there is one."""
    try:
        with open(path) as file:
            return json.load(file)
    except FileNotFoundError:
        return None


def save(path: str, state: dict) -> None:
    """Write a file so that it is never half written: a task that is killed leaves the old content or the new one."""
    with open(f"{path}.new", "w") as file:
        json.dump(state, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(f"{path}.new", path)


if __name__ == "__main__":
    main()
