"""Runs a job on a test cluster that is started for it: `python -m tests.kubernetes.demo IMAGE JOB_FILE`."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests import runtime_image

from . import images, programs
from .namespaces import Namespace
from .own_cluster import OwnCluster


def main(image: str, job: str) -> int:
    """Returns the exit code of `kedge run`."""
    if reason := programs.missing():
        print(f"error: no cluster for the demo: {reason}", file=sys.stderr)
        return 4
    folder = Path(tempfile.mkdtemp(prefix="kedge-demo-"))
    cluster = OwnCluster(folder / "cluster")
    try:
        print("a cluster of two nodes is started ...", file=sys.stderr)
        cluster.start(os.getpid())
        images.load_from_podman(cluster, image, folder)
        images.load(cluster, runtime_image.archive())
        namespace = Namespace(cluster, folder)
        site = folder / "site.toml"
        site.write_text(f'[engines.kubernetes]\nimage = "{runtime_image.NAME}"\nimage-pull-policy = "Never"\n')
        variables = {"KUBECONFIG": str(namespace.kubeconfig), "KEDGE_SITE_FILE": str(site)}
        argv = [sys.executable, "-m", "kedge", "run", "--engine", "kubernetes", "-p", f"image={image}", job]
        return subprocess.run(argv, env=os.environ | variables, check=False).returncode
    finally:
        cluster.close()
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
