"""A training job that cannot finish: one worker has no data, and the others wait for that worker's gradients."""

from __future__ import annotations

import os
import time
from pathlib import Path


def read_part(index: int) -> list[str]:
    """The rows of this worker's part of the data."""
    return Path(f"data/part-{index}.csv").read_text().splitlines()[1:]


def main() -> None:
    index = int(os.environ["PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX"])
    print(f"worker {index} starts", flush=True)
    time.sleep(1)
    rows = read_part(index)
    print(f"worker {index} has {len(rows)} rows", flush=True)
    while True:
        print(f"worker {index} waits for the gradients of the others", flush=True)
        time.sleep(1)


if __name__ == "__main__":
    main()
