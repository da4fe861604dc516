"""The options of the container engine."""

from __future__ import annotations

from kedge.engines.base import EngineOption
from kedge.engines.machine.options import ALLOW_FEWER_GPUS

DEFAULT_PIDS = 32768  # threads count, too, and programs with many data loaders have thousands

ACCEPTS = (
    ALLOW_FEWER_GPUS,
    EngineOption(
        "network",
        str,
        "Containers: use a network of the job's own, or this machine's.",
        choices=("job", "host"),
        default="job",
    ),
    EngineOption("keep", bool, "Containers: keep ended containers for inspection."),
    EngineOption("user", str, "Containers: run tasks as this user, not the image's.", metavar="UID[:GID]"),
    EngineOption(
        "userns",
        str,
        "Containers: set the user namespace mode, such as keep-id for rootless Podman.",
        metavar="MODE",
    ),
    EngineOption(
        "pids_limit",
        int,
        f"Containers: limit the processes and threads of a task (default {DEFAULT_PIDS}).",
        metavar="N",
        least=16,
        default=DEFAULT_PIDS,
    ),
)
