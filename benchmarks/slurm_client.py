"""Measures what kedge takes of a login node of Slurm: processes of `run -d`, `ps` and `show`, with many runs whose jobs
wait and as many that have ended.

    python benchmarks/slurm_client.py [RUNS]

Needs a cluster whose commands are on PATH (SLURM_CONF). RUNS (100) of each kind: copies of one that waits, with a held
job of Slurm each, and of one that has ended. CPU time is that of kedge with the commands of Slurm that it calls; the
medians of five. These commands are named as the first of the five calls them: the next ones may know enough.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from slurm_start import JOB

KEDGE = (sys.executable, "-m", "kedge")
_PROGRAMS = ("sbatch", "srun", "squeue", "scontrol", "scancel", "sinfo", "sacct", "sacctmgr")
_COUNTED = '#!/bin/sh\n[ -n "$SLURM_JOB_ID" ] || echo {name} >>{calls}\nexec {program} "$@"\n'
_ROUNDS = 5


def main() -> None:
    """Measure and print."""
    if not shutil.which("sbatch"):
        sys.exit("there is no Slurm here: sbatch is not on PATH")
    many = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["XDG_STATE_HOME"] = str(folder / "state")
        _count_calls(folder)
        (folder / "bench.yaml").write_text(JOB.format(tasks=2, command="true"))
        run = [*KEDGE, "run", "-q", "--engine", "slurm", str(folder / "bench.yaml")]
        subprocess.run(run, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        print(f"{'':<12}{'CPU s':>8}{'wall s':>8}  commands of Slurm")
        _report(folder, "run -d", [*run, "-d"])
        held: list[str] = []
        try:
            _more_runs(folder / "state" / "kedge" / "jobs", many, held)
            _report(folder, "ps", [*KEDGE, "ps"])
            _report(folder, "ps --all", [*KEDGE, "ps", "--all"])
            _report(folder, "show", [*KEDGE, "show", "waits-0"])
        finally:
            subprocess.run(["scancel", *held], check=False)


def _count_calls(folder: Path) -> None:
    """Put programs before those of Slurm on PATH that note their names."""
    (folder / "bin").mkdir()
    for name in _PROGRAMS:
        if program := shutil.which(name):
            path = folder / "bin" / name
            path.write_text(_COUNTED.format(name=name, calls=folder / "calls", program=program))
            path.chmod(0o755)
    os.environ["PATH"] = f"{folder / 'bin'}:{os.environ['PATH']}"


def _report(folder: Path, name: str, argv: list[str]) -> None:
    """Run a command some times, and print its figures."""
    found, said, calls = [], [], folder / "calls"
    for _ in range(_ROUNDS):
        calls.write_text("")
        before, begin = os.times(), time.perf_counter()
        subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        took, after = time.perf_counter() - begin, os.times()
        cpu = after.children_user + after.children_system - before.children_user - before.children_system
        found.append((cpu, took))
        said.append(Counter(calls.read_text().split()))
    cpu, took = (statistics.median(column) for column in zip(*found, strict=True))
    called = ", ".join(f"{each} {count}" for each, count in said[0].items())
    print(f"{name:<12}{cpu:>8.2f}{took:>8.2f}  {called or 'none'}")


def _more_runs(jobs: Path, many: int, held: list[str]) -> None:
    """Runs that have ended, and runs whose jobs wait; the numbers of these jobs are added to `held`."""
    ended = next(path for path in jobs.iterdir() if (path / "report.json").exists())
    for number in range(many):
        _copy(ended, jobs / f"ended-{number}")
        waits = jobs / f"waits-{number}"
        _copy(ended, waits)
        for gone in ("report.json", "report.md", "cluster/heartbeat"):
            (waits / gone).unlink(missing_ok=True)
        events = (waits / "events.jsonl").read_text().splitlines()
        (waits / "events.jsonl").write_text(f"{events[0]}\n")
        argv = ["sbatch", "--parsable", "--hold", f"--comment=kedge {waits.name}", "--output=/dev/null", "--wrap=true"]
        done = subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True)
        held.append(done.stdout.strip())
        file = waits / "cluster" / "job.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | {"job": held[-1]}))


def _copy(source: Path, target: Path) -> None:
    shutil.copytree(source, target, symlinks=True)
    for name in ("run.json", "report.json", "report.md"):
        if (target / name).exists():
            text = (target / name).read_text().replace(source.name, target.name)
            (target / name).write_text(text)


if __name__ == "__main__":
    main()
