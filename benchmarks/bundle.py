"""Measures the bundle: time to build, size, time to start, and the overhead around a task that does nothing.

    python benchmarks/bundle.py [ROUNDS [IMAGE]]

The cases take turns, so that a busy machine affects all of them equally; compare only within one run. With an IMAGE
(such as localhost/kedge/busybox:1, made by examples/images/build), the same is also measured in a podman container.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from kedge import packed_runtime
from kedge.bundle import build, layers
from kedge.bundle.build import Bundle
from kedge.contract import TaskSpec

ROUNDS = Path(__file__).with_name("rounds.py")
INSTALLED = (sys.executable, "-I", "-S")
SPEC = TaskSpec(
    user="me", job="overhead", job_id="me~overhead", role="worker", task_index=0, job_attempt=0, task_attempt=0,
    uid="0", folder="", workdir="", environment={}, command=("true",), steps=(), host="127.0.0.1",
    ports={"ssh": [22022], "http": [8080]}, peers_file="",
).to_json()  # fmt: skip

Costs = dict[str, list[float]]


def main() -> None:
    """Measure and print."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 31
    image = sys.argv[2] if len(sys.argv) > 2 else None
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = f"{folder}/cache"
        bundle = _build()
        costs = _here(bundle, rounds, Path(folder, "here"))
        if image:
            costs |= _inside(bundle, rounds, Path(folder, "inside"), image)
    _show(costs)


def _build() -> Bundle:
    chosen = layers.available()
    for how in ("built", "found in the cache"):
        begin = time.perf_counter()
        bundle = build.ensure(chosen)
        print(f"{how} in {time.perf_counter() - begin:.3f} s")
    for layer in chosen:
        sizes = [file["size"] for file in bundle.head["files"] if file["layer"] == layer]
        print(f"{layer}: {len(sizes)} files, {sum(sizes) / 1e6:.1f} MB")
    return bundle


def _here(bundle: Bundle, rounds: int, folder: Path) -> Costs:
    cases = {
        "installed Python -c pass": _case(*INSTALLED, "-c", "pass"),
        "installed runtime around true": _case(*INSTALLED, str(packed_runtime.start_file(os.environ)), spec=SPEC),
        **_cases(bundle, str(bundle.path), ""),
    }
    done = subprocess.run([sys.executable, ROUNDS, _write(folder, rounds, cases)], stdout=subprocess.PIPE, check=True)
    return dict(json.loads(done.stdout))


def _inside(bundle: Bundle, rounds: int, folder: Path, image: str) -> Costs:
    root, shared = "/usr/local/pai/kedge", "/measured"
    cases = {"sh -c true, in a container": _case("/bin/sh", "-c", "true")}
    _write(folder, rounds, cases | _cases(bundle, root, ", in a container"))
    mounts = (f"{bundle.path}:{root}:ro", f"{folder}:{shared}", f"{ROUNDS}:/rounds.py:ro")
    options = [word for mount in mounts for word in ("-v", mount)]
    python = build.command(bundle, root)[:-1]
    argv = [
        "podman",
        "run",
        "--rm",
        "--network",
        "none",
        *options,
        image,
        *python,
        "/rounds.py",
        f"{shared}/cases.json",
    ]
    return dict(json.loads(subprocess.run(argv, stdout=subprocess.PIPE, check=True).stdout))


def _cases(bundle: Bundle, root: str, where: str) -> dict[str, Any]:
    *python, runtime = build.command(bundle, root)
    return {
        f"bundle's Python -c pass{where}": _case(*python, "-c", "pass"),
        f"the same through bin/python3{where}": _case(f"{root}/bin/python3", "-I", "-S", "-c", "pass"),
        f"bundle's runtime around true{where}": _case(*python, runtime, spec=SPEC),
    }


def _case(*argv: str, spec: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"argv": argv, "spec": spec}


def _write(folder: Path, rounds: int, cases: dict[str, Any]) -> str:
    folder.mkdir()
    path = folder / "cases.json"
    path.write_text(json.dumps({"rounds": rounds, "cases": cases}))
    return str(path)


def _show(costs: Costs) -> None:
    base, _ = costs["installed Python -c pass"]
    print(f"{'case':<48}{'wall ms':>9}{'CPU ms':>9}{'times the first':>17}")
    for name, (wall, cpu) in costs.items():
        print(f"{name:<48}{wall * 1e3:>9.1f}{cpu * 1e3:>9.1f}{wall / base:>17.2f}")


if __name__ == "__main__":
    main()
