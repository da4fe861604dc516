"""Measures the barrier of the init phase: how long all tasks of a job need to see that the last one is ready, and the
CPU time of each.

    python benchmarks/barrier.py [TASKS [SECONDS [INTERVAL]]]

So many barriers (20) start at once as processes of their own, over HTTP and over TLS, with one API server for all. The
last task is ready SECONDS (12) after their start; they ask every INTERVAL seconds (10). A start is the CPU time of
`python -I -S -c pass`.
"""

from __future__ import annotations

import http.server
import json
import os
import shutil
import ssl
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from turns import PYTHON, cost

NAME = "0fc91ea6e37625ea79fce7f32891d139"
SRC = Path(__file__).parents[1] / "src"
LOAD = f"import sys; sys.path.insert(0, {str(SRC)!r}); from kedge.dropin import programs"
PROGRAM = f"{LOAD}; sys.exit(programs.main('frameworkBarrier'))"
ROUNDS = 20  # of a start


class Row(NamedTuple):
    """Seconds from the last task being ready until the first and the last barrier have passed; CPU seconds of one."""

    first: float
    last: float
    requests: int
    cpu: list[float]


class Cluster:
    """What the API server answers: a framework whose last task gets its address at the time `ready`."""

    def __init__(self, tasks: int, seconds: float) -> None:
        self.ready = time.monotonic() + seconds
        self.requests = 0
        self._answers = [json.dumps(framework(tasks, ready)).encode() for ready in (False, True)]

    def answer(self) -> bytes:
        self.requests += 1
        return self._answers[time.monotonic() >= self.ready]


def framework(tasks: int, ready: bool) -> dict[str, Any]:
    """A framework of one role. Without `ready` its last task has no address."""
    addresses = [f"10.0.{number // 250}.{number % 250 + 1}" for number in range(tasks - 1)] + ["10.1.0.1"] * ready
    statuses = [
        {"index": number, "attemptStatus": {"podIP": ip, "podUID": f"uid-{number}"}}
        for number, ip in enumerate([*addresses, *[None] * (tasks - len(addresses))])
    ]
    return {
        "kind": "Framework",
        "metadata": {"name": NAME},
        "spec": {"taskRoles": [{"name": "worker", "taskNumber": tasks}]},
        "status": {"attemptStatus": {"taskRoleStatuses": [{"name": "worker", "taskStatuses": statuses}]}},
    }


class Server(http.server.ThreadingHTTPServer):
    """Takes as many connections at once as there are tasks."""

    request_queue_size = 1024


@contextmanager
def serving(cluster: Cluster, folder: Path, secure: bool) -> Iterator[dict[str, str]]:
    """An API server. Yields the variables for its address."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = cluster.answer()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Print no log."""

    with Server(("127.0.0.1", 0), Handler) as server:
        if secure:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate(folder))
            server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http{'s' * secure}://127.0.0.1:{server.server_port}"
        yield {"KUBE_APISERVER_ADDRESS": address, "SSL_CERT_FILE": str(folder / "ca.pem")}
        server.shutdown()


def certificate(folder: Path) -> tuple[Path, Path]:
    """The files of a new certificate and of its key."""
    made, key = folder / "ca.pem", folder / "key.pem"
    kind = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    files = ("-keyout", str(key), "-out", str(made))
    names = ("-days", "2", "-subj", "/CN=benchmark", "-addext", "subjectAltName=IP:127.0.0.1")
    subprocess.run(["openssl", "req", "-x509", *kind, *files, *names], check=True, capture_output=True)
    return made, key


def measure(tasks: int, seconds: float, interval: str, secure: bool) -> Row:
    """Start all barriers, and wait for their ends."""
    with tempfile.TemporaryDirectory() as name:
        folder, cluster = Path(name), Cluster(tasks, seconds)
        with serving(cluster, folder, secure) as server:
            pids = {start(folder, number, interval, server): number for number in range(tasks)}
            ends, cpu = [], []
            while len(ends) < len(pids):
                _, status, usage = os.wait4(-1, 0)
                assert status == 0, (folder / "log").read_text()
                ends.append(time.monotonic())
                cpu.append(usage.ru_utime + usage.ru_stime)
    return Row(ends[0] - cluster.ready, ends[-1] - cluster.ready, cluster.requests, cpu)


def start(folder: Path, number: int, interval: str, server: dict[str, str]) -> int:
    """Start the barrier of one task in a folder of its own."""
    (folder / str(number)).mkdir()
    own = {"FC_TASKROLE_NAME": "worker", "FC_TASK_INDEX": str(number), "FC_POD_UID": f"uid-{number}"}
    given = {"HOME": str(folder), "FC_FRAMEWORK_NAME": NAME, "BARRIER_CHECK_INTERVAL_SEC": interval}
    argv = [*PYTHON, "-c", PROGRAM, str(folder / str(number) / "framework.json")]
    log = [(os.POSIX_SPAWN_OPEN, 2, str(folder / "log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)]
    return os.posix_spawn(argv[0], argv, given | own | server, file_actions=log)


def main() -> None:
    """Measure and print."""
    given = [*sys.argv[1:], *["20", "12", "10"][len(sys.argv) - 1 :]]
    tasks, seconds, interval = int(given[0]), float(given[1]), given[2]
    unit = statistics.median(cost([*PYTHON, "-c", "pass"]).cpu for _ in range(ROUNDS))
    print(f"{tasks} tasks, the last one ready after {seconds:g} s, a check every {interval} s")
    print(
        f"{'':<8}{'first passed s':>16}{'last passed s':>16}{'requests':>10}{'CPU ms/task':>13}{'starts':>8}{'most':>8}"
    )
    for secure in (False, True) if shutil.which("openssl") else (False,):
        row = measure(tasks, seconds, interval, secure)
        middle, most = statistics.median(row.cpu), max(row.cpu)
        times = f"{row.first:>16.2f}{row.last:>16.2f}{row.requests:>10}"
        print(f"{'TLS' if secure else 'HTTP':<8}{times}{middle * 1000:>13.1f}{middle / unit:>8.2f}{most / unit:>8.2f}")


if __name__ == "__main__":
    main()
