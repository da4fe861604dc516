"""Where the cluster of the tests comes from, or why there is none."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

VERSION = "1.20.2"  # what the script `build` builds
CONTROL_PLANE = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd")
TOOLS = ("containerd", "ctr", "runc", "ip", "unshare", "nsenter", "openssl", "kubectl", "kubelet")
PLUGINS = ("bridge", "host-local", "loopback")  # of CNI
_SYSTEM = "/usr/local/sbin:/usr/sbin:/sbin"


def kubeconfig() -> str:
    """The file of a cluster that is there already and is to be used for the tests; "" if they start one."""
    return "" if os.environ.get("KUBEBUILDER_ASSETS") else os.environ.get("KUBECONFIG", "")


def folder() -> Path:
    """Where the programs of Kubernetes are, if they are there."""
    if assets := os.environ.get("KUBEBUILDER_ASSETS"):
        return Path(assets).absolute()
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return caches / "kedge-tests" / f"kubernetes-{VERSION}"


def path() -> str:
    """The PATH of the cluster's programs."""
    return f"{folder()}:{os.environ['PATH']}:{_SYSTEM}"


def missing() -> str:
    """Why no cluster can be started here, or "" if it can."""
    if os.geteuid() != 0:
        return "a Kubernetes cluster for tests needs root, as its nodes start containers"
    if not (folder() / "kube-apiserver").exists():
        return f"no kube-apiserver in {folder()} (tests/kubernetes/build builds it)"
    absent = [name for name in (*CONTROL_PLANE, *TOOLS) if not shutil.which(name, path=path())]
    if absent:
        return f"no {', '.join(absent)} (Debian: apt-get install etcd-server containerd runc iproute2 openssl)"
    return "" if plugins() else "no plugins of CNI (Debian: apt-get install containernetworking-plugins)"


def plugins() -> Path | None:
    """The folder with the plugins of CNI."""
    places = (Path("/usr/lib/cni"), Path("/opt/cni/bin"))
    return next((place for place in places if all((place / name).exists() for name in PLUGINS)), None)


@cache
def minor() -> int:
    """The minor version of the kubelet: options differ."""
    said = subprocess.run(["kubelet", "--version"], env={"PATH": path()}, capture_output=True, text=True, check=True)
    found = re.search(r"v1\.(\d+)", said.stdout)
    return int(found[1]) if found else int(VERSION.split(".")[1])
