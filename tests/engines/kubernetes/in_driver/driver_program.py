"""A driver as a process of its own: `driver_program.py KUBECONFIG RUN_FOLDER`, with the variables of a driver pod."""

from __future__ import annotations

import sys

from kedge.controller import in_cluster
from kedge.engines.kubernetes.api import KubernetesApi
from kedge.engines.kubernetes.in_driver import program
from kedge.engines.kubernetes.in_driver.lease import LeaseTimes
from kedge.runs import cluster_files


def main(kubeconfig: str, folder: str) -> int:
    cluster_files.HEARTBEAT_SEC = 0.3
    program.LEASE = LeaseTimes(valid_sec=3.0, renew_sec=0.5, retry_sec=0.1)
    KubernetesApi.in_cluster = classmethod(lambda cls: cls.connect(kubeconfig=kubeconfig))  # type: ignore[method-assign, assignment]
    return program.main([folder], in_cluster.main)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
