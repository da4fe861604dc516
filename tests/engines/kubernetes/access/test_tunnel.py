"""ssh reaches a task through the API server: the program of ProxyCommand, and the keys that it needs."""

from __future__ import annotations

import io
import json
import os
import socket
import subprocess
import tarfile
import threading
from contextlib import suppress

from tests.engines.kubernetes.access.conftest import RUN_ID

from kedge.engines.kubernetes.access import tunnel
from kedge.engines.kubernetes.objects import run_objects
from kedge.engines.kubernetes.objects.labels import ObjectOwner
from kedge.runs import copies


def test_a_port_of_a_task_is_reached(scene):
    scene.submit()
    spec = {"containers": [{"name": "app", "image": "a"}, {"name": "agent", "image": "b"}]}
    name = scene.names.pod(1, "worker", 0, 2)
    scene.api.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})
    for folder in ("attempt-0/worker-0", "attempt-1/worker-0.2"):
        (scene.run.path / folder).mkdir(parents=True)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        scene.server.commands = connected
        line = copies.tunnel(scene.run, "worker", 0, "127.0.0.1", port)
        program = subprocess.Popen(["sh", "-c", line], stdin=-1, stdout=-1, bufsize=0)
        peer, _ = server.accept()
        with peer:
            program.stdin.write(b"hello")
            assert peer.recv(100) == b"hello"
            peer.sendall(b"world")
            assert os.read(program.stdout.fileno(), 100) == b"world"
        program.stdin.close()
        assert program.stdout.read() == b""
        assert program.wait() == 0
        program.stdout.close()


def connected(call) -> int:
    """netcat."""
    assert call.pod == f"{RUN_ID}-a1-worker-0-t2"
    assert tuple(call.argv[:-2]) == tunnel.CONNECT
    with socket.create_connection((call.argv[-2], int(call.argv[-1]))) as peer:

        def forward() -> None:
            with suppress(ValueError, OSError):  # the client has gone
                while data := call.read():
                    peer.sendall(data)

        threading.Thread(target=forward, daemon=True).start()
        while data := peer.recv(1 << 15):
            call.write(data)
    return 0


def test_the_keys_come_from_the_cluster_where_there_are_none(scene):
    scene.submit()
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        data = json.dumps({"texts": {"key": "value"}}).encode()
        member = tarfile.TarInfo("cluster/secrets.json")
        member.size = len(data)
        archive.addfile(member, io.BytesIO(data))
    owner = ObjectOwner(RUN_ID, scene.anchor["metadata"]["uid"], RUN_ID, "me", "train")
    scene.api.delete("Secret", scene.names.driver_secret)
    scene.api.create(run_objects.driver_secret(owner, packed.getvalue()))
    copies.fetch_secrets(scene.run)
    assert scene.run.cluster.read(scene.run.cluster.secrets) == {"texts": {"key": "value"}}
    assert scene.run.cluster.secrets.stat().st_mode & 0o777 == 0o600
