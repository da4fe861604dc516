"""Measures how fast a task can print through the runtime, compared with shell pipelines, and checks that short tasks
lose no lines.

    python benchmarks/log_throughput.py [MEBIBYTES [FOLDER [TASKS]]]

A program prints MEBIBYTES (1024) of 120-byte lines in writes of 64 KiB, then in writes of one line, into
`| cat > file`, into `| tee file > file2`, and through the runtime (three log files, rotation on), which masks no, one
or ten secrets of several kinds, and once cannot write the times of the lines. Prints MB/s, CPU seconds per GiB (of all
processes, including the program), and the ratio of wall times to `cat`. The program is compiled if there is a cc;
otherwise it is dd, which is slower at short writes. Then TASKS (300) attempts print one line to each stream and exit at
once, and the lines missing from any log are counted. FOLDER (.) should be on a disk.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

import re2
from turns import PYTHON, Argv, Cost, cost, in_turns

from kedge import packed_runtime
from kedge.contract import LOG_TIMES, SECRET_VALUES, TaskSpec

SITE = str(Path(re2.__file__).parent.parent)
ROUNDS = 3
LINE = (
    b"step 1234 loss=0.4821 acc=0.9130 lr=3e-4 [worker:3] 2026-02-01T02:54:48 /mnt/data/train.py:88".ljust(119, b".")
    + b"\n"
)
LARGE = 546 * len(LINE)  # 64 KiB


def digits(seed: int, lines: int = 1) -> str:
    """A secret of lines of 40 base64 digits."""
    return "\n".join(b64encode(sha256(b"%d-%d" % (seed, n)).digest()[:30]).decode() for n in range(lines))


CAT, TEE = "cat > file", "tee file > file2"
WITHOUT_TIMES = "kedge runtime, without times"
RUNTIME_ROWS = {
    "kedge runtime": [],
    WITHOUT_TIMES: [],
    "kedge runtime, 1 secret": [digits(0)],
    "kedge runtime, 10 secrets": [digits(n) for n in range(10)],
    "kedge runtime, 10 of 8 digits": [digits(n)[:8] for n in range(10)],
    "kedge runtime, 10 of 40 lines": [digits(n, 40) for n in range(10)],
}
EXPECTED = (
    ("user-all", "to-stdout\n"),
    ("user-all", "to-stderr\n"),
    ("user-stdout", "to-stdout\n"),
    ("user-stderr", "to-stderr\n"),
)


WRITER = """
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(int argc, char **argv) {  /* TOTAL SIZE LINE: print TOTAL bytes of LINE in writes of SIZE bytes */
    long total = atol(argv[1]), size = atol(argv[2]);
    char *data = malloc(size);
    for (long i = 0; i < size; i++) data[i] = i % 120 == 119 ? '\\n' : argv[3][i % 120];
    for (; total > 0; total -= size)
        for (long done = 0; done < size; done += write(1, data + done, size - done));
    return 0;
}
"""


def main() -> None:
    """Measure and print."""
    total = (int(sys.argv[1]) if len(sys.argv) > 1 else 1024) << 20
    folder = sys.argv[2] if len(sys.argv) > 2 else "."
    tasks = int(sys.argv[3]) if len(sys.argv) > 3 else 300
    with tempfile.TemporaryDirectory(dir=os.path.abspath(folder)) as name:
        work = Path(name)
        for size in (LARGE, len(LINE)):
            show(compare(work, size, total), size, total)
        print(f"{count_lost(work, tasks)} lines lost by {tasks} tasks that print to both streams and exit at once")


def writer(folder: Path, total: int, size: int) -> str:
    """The command that prints `total` bytes of lines in writes of `size` bytes."""
    if compiler := shutil.which("cc"):
        source, program = folder / "writer.c", folder / "writer"
        source.write_text(WRITER)
        subprocess.run([compiler, "-O2", "-o", program, source], check=True)
        return f"{program} {total} {size} '{LINE.decode().strip()}'"
    block = folder / "block"
    block.write_bytes(LINE * (size // len(LINE)))
    return f"dd if=<(while :; do cat {block}; done) bs={size} count={total // size} iflag=fullblock status=none"


def compare(folder: Path, size: int, total: int, rounds: int = ROUNDS) -> dict[str, Cost]:
    """The median costs of the ways to store the same output, in writes of `size` bytes."""
    program = writer(folder, total, size)

    def stored(name: str) -> Cost:
        work = folder / "run"
        work.mkdir()
        if name == WITHOUT_TIMES:
            (work / LOG_TIMES).touch()  # a file in place of the folder
        shell = ["bash", "-c", f"cd {work}; {program} | {name}"]
        costs = cost(attempt(work, program, RUNTIME_ROWS[name]) if name in RUNTIME_ROWS else shell)
        shutil.rmtree(work)
        return costs

    return in_turns({name: lambda _, name=name: stored(name) for name in (CAT, TEE, *RUNTIME_ROWS)}, rounds)


def show(found: dict[str, Cost], size: int, total: int) -> None:
    """Print a table that compares them."""
    print(f"{total >> 20} MiB in writes of {size} bytes")
    print(f"  {f'(medians of {ROUNDS})':<32}{'MB/s':>12}{'CPU s/GiB':>12}{'wall/cat':>10}")
    for name in (CAT, TEE, *RUNTIME_ROWS):
        wall, cpu = found[name]
        ratio = wall / found[CAT].wall
        print(f"  {name:<32}{total / wall / 1e6:>12.0f}{cpu * (1 << 30) / total:>12.2f}{ratio:>10.2f}")


def count_lost(folder: Path, tasks: int) -> int:
    """Run the short tasks and count the lines that are missing from a log."""
    lost = 0
    for number in range(tasks):
        work = folder / f"quick-{number}"
        work.mkdir()
        subprocess.run(attempt(work, "echo to-stdout; echo to-stderr >&2"), check=True)
        lost += sum(line not in (work / stream / "current").read_text() for stream, line in EXPECTED)
    return lost


def attempt(folder: Path, command: str, secrets: Sequence[str] = ()) -> Argv:
    """The command line that runs `command` as a task in `folder`, with these secrets."""
    values = {f"secret{n}": value for n, value in enumerate(secrets)}
    (folder / "secrets").mkdir()
    (folder / "secrets" / SECRET_VALUES).write_text(json.dumps(values))
    spec = TaskSpec(
        user="me", job="logs", job_id="me~logs", role="worker", task_index=0, job_attempt=0, task_attempt=0,
        uid="0", folder=str(folder), workdir=f"{folder}/work", environment={}, command=(command,), steps=(),
        host="127.0.0.1", ports={"ssh": [22022], "http": [8080]}, peers_file="", secrets_dir=f"{folder}/secrets",
    )  # fmt: skip
    (folder / "spec.json").write_text(json.dumps(spec.to_json()))
    start = str(packed_runtime.start_file(os.environ))
    return [*PYTHON, start, f"{folder}/spec.json", "--site", SITE]


if __name__ == "__main__":
    main()
