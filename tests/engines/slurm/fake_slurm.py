"""Slurm's commands for tests, without Slurm: they keep jobs as files in a folder, and run batch scripts as processes of
this machine. `fake_slurm.py FOLDER COMMAND ARGUMENT...`

Files in the folder change what happens: `hold` (jobs stay pending, its content is the reason), `silent` (slurmctld does
not answer), `refuse` (what sbatch says instead), `accounting` (sacct works), `slow` (sbatch is killed before it
answers, after it has submitted the job), `says` (what sbatch says beside the number of the job).
`calls` lists all calls.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

COMMANDS = ("sbatch", "squeue", "scancel", "scontrol", "sacct", "sinfo", "srun")
_GONE = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED")


def install(folder: Path) -> Path:
    """Make the commands for the state in this folder. Returns the folder of the commands."""
    commands = folder / "bin"
    commands.mkdir(parents=True)
    for name in COMMANDS:
        path = commands / name
        path.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "{__file__}" "{folder}" {name} "$@"\n')
        path.chmod(0o755)
    return commands


def jobs(folder: Path) -> list[dict[str, Any]]:
    """All jobs, the oldest first."""
    return [json.loads(path.read_text()) for path in sorted(folder.glob("job-*.json"))]


def change(folder: Path, number: int, **facts: Any) -> None:
    """Change what Slurm knows of a job."""
    path = folder / f"job-{number:04}.json"
    found = json.loads(path.read_text()) | facts
    path.with_suffix(".new").write_text(json.dumps(found))
    path.with_suffix(".new").replace(path)


def release(folder: Path) -> None:
    """Start the pending jobs."""
    subprocess.run([sys.executable, "-S", __file__, str(folder), "release"], check=True)


def end_all(folder: Path) -> None:
    """End what the batch scripts have started."""
    for job in jobs(folder):
        if job["pid"]:
            with suppress(ProcessLookupError):
                os.killpg(job["pid"], signal.SIGKILL)


def sbatch(folder: Path, args: list[str]) -> int:
    if (folder / "refuse").exists():
        print((folder / "refuse").read_text(), file=sys.stderr)
        return 1
    script = Path(args[-1]).read_text()
    lines = [line.removeprefix("#SBATCH ") for line in script.split("\n") if line.startswith("#SBATCH --")]
    options = dict(each.removeprefix("--").partition("=")[::2] for each in (*lines, *args[:-1]))
    number = len(jobs(folder)) + 1
    job = {
        "id": number, "state": "PENDING", "reason": "None", "comment": options["comment"].strip('"'), "pid": None,
        "output": options.get("output", "/dev/null").strip('"'), "script": args[-1], "code": "0:0", "by": "",
        "user": os.getuid(),
    }  # fmt: skip
    (folder / f"job-{number:04}.json").write_text(json.dumps(job))
    if not (folder / "hold").exists():
        _start(folder, job)
    if (folder / "slow").exists():
        os.kill(os.getppid(), signal.SIGKILL)
        return 1
    if (folder / "says").exists():
        print((folder / "says").read_text(), file=sys.stderr)
        print(f"a greeting\n{number};somewhere")
    else:
        print(number)
    return 0


def _start(folder: Path, job: dict[str, Any]) -> None:
    """Run the batch script, and record how it ends, in a process of its own."""
    change(folder, job["id"], state="RUNNING")
    subprocess.Popen(
        [sys.executable, "-S", __file__, str(folder), "batch", str(job["id"])], start_new_session=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def batch(folder: Path, args: list[str]) -> int:
    number = int(args[0])
    job = json.loads((folder / f"job-{number:04}.json").read_text())
    with open(job["output"], "ab") as output:
        environment = {**os.environ, "SLURM_JOB_ID": str(number), "SLURMD_NODENAME": "n1"}
        child = subprocess.Popen(
            ["/bin/sh", job["script"]], stdout=output, stderr=output, start_new_session=True, env=environment
        )
    change(folder, number, pid=child.pid)
    code = child.wait()
    if json.loads((folder / f"job-{number:04}.json").read_text())["state"] not in _GONE:
        change(folder, number, state="FAILED" if code else "COMPLETED", code=f"{code}:0")
    return 0


def squeue(folder: Path, args: list[str]) -> int:
    for job in jobs(folder):
        reason = (folder / "hold").read_text() if job["state"] == "PENDING" and (folder / "hold").exists() else "None"
        start = "2030-01-02T03:04:05" if job["state"] == "PENDING" else "2026-01-02T03:04:05"
        if job["state"] != "FORGOTTEN" and f"--user={job['user']}" in args:
            print(f"{job['id']}|{job['id']}|{job['state']}|{reason}|{start}|n1|{job['comment']}")
    return 0


def scancel(folder: Path, args: list[str]) -> int:
    number = int(args[-1])
    job = json.loads((folder / f"job-{number:04}.json").read_text())
    if "--batch" in args:
        name = next(arg.partition("=")[2] for arg in args if arg.startswith("--signal="))
        os.kill(job["pid"], getattr(signal, f"SIG{name}"))
    elif "--state=PENDING" not in args or job["state"] == "PENDING":
        change(folder, number, state="CANCELLED", by=str(os.getuid()))
        if job["pid"]:
            os.killpg(job["pid"], signal.SIGKILL)
    return 0


def sinfo(folder: Path, args: list[str]) -> int:
    print("main*|up|1:00:00|2|64|200000|gpu:4|(null)")
    return 0


def scontrol(folder: Path, args: list[str]) -> int:
    if args[-1] == "partition":
        print("PartitionName=main AllowAccounts=ALL AllowQos=ALL MaxNodes=UNLIMITED ReqResv=NO")
        return 0
    for job in jobs(folder):
        if str(job["id"]) == args[-1] and job["state"] != "FORGOTTEN":
            print(
                f"JobId={job['id']} JobState={job['state']} Reason=None ExitCode={job['code']} "
                "BatchHost=n1 TimeLimit=01:00:00"
            )
            return 0
    print("slurm_load_jobs error: Invalid job id specified", file=sys.stderr)
    return 1


def sacct(folder: Path, args: list[str]) -> int:
    if not (folder / "accounting").exists():
        print("Slurm accounting storage is disabled", file=sys.stderr)
        return 1
    number = next(arg.partition("=")[2] for arg in args if arg.startswith("--jobs="))
    for job in jobs(folder):
        if str(job["id"]) == number:
            by = f" by {job['by']}" if job["state"] == "CANCELLED" else ""
            print(f"{job['state']}{by}|{job['code']}|n1|01:00:00")
    return 0


def main(folder: Path, name: str, args: list[str]) -> int:
    if name == "batch":
        return batch(folder, args)
    if name == "release":
        (folder / "hold").unlink()
        for job in jobs(folder):
            if job["state"] == "PENDING":
                _start(folder, job)
        return 0
    with open(folder / "calls", "a+") as calls:
        fcntl.flock(calls, fcntl.LOCK_EX)
        calls.write(f"{name} {' '.join(args)}\n")
        calls.flush()
        if (folder / "silent").exists():
            print(f"{name}: error: Unable to contact slurm controller (connect failure)", file=sys.stderr)
            return 1
        return int(globals()[name](folder, args))


if __name__ == "__main__":
    time.tzset()
    sys.exit(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:]))
