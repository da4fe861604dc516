"""A node of a test cluster: a mount namespace of its own with containerd and a kubelet.

In its namespace a node has more cores than the machine, as many pods wait or sleep; the files of sysctls that a kubelet
sets are copies, so that nothing changes for the machine; and what containerd and the kubelet keep in fixed places is in
the folder of the node.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path

from . import leftovers
from .addresses import Addresses
from .programs import minor, plugins

CORES = 64
_SYSCTLS = (
    "vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops", "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
)  # fmt: skip
_STATE = ("/run/containerd", "/run/netns", "/var/lib/cni", "/var/log/pods", "/var/log/containers")

_CONTAINERD = """\
version = 2
root = "{folder}/containerd"
state = "{folder}/containerd-state"
[grpc]
  address = "{folder}/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/pause:1"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{plugins}"
    conf_dir = "{folder}/cni"
"""


def prepare(folder: Path, name: str, addresses: Addresses) -> None:
    """Write the files of a node to its folder and make its control group."""
    folder.mkdir()
    folder.joinpath("containerd.toml").write_text(_CONTAINERD.format(folder=folder, plugins=plugins()))
    folder.joinpath("cni").mkdir()
    folder.joinpath("cni", "10-bridge.conflist").write_text(json.dumps(_network(folder, name, addresses)))
    folder.joinpath("kubelet.yaml").write_text(json.dumps(_kubelet(folder, name, addresses), indent=1))
    _write_cores(folder / "cores" / "node0")
    folder.joinpath("sysctls").mkdir()
    for key in _SYSCTLS:
        (folder / "sysctls" / key.replace("/", ".")).write_text(Path("/proc/sys", key).read_text())
    for group in leftovers.cgroup_folders(addresses.cgroup(name)):
        group.mkdir(parents=True, exist_ok=True)
        for each in (group.parent, group):  # no process may be put into a set without cores
            for file in ("cpuset.cpus", "cpuset.mems"):
                if (each / file).exists() and not (each / file).read_text().strip():
                    (each / file).write_text((each.parent / file).read_text())


def namespace(folder: Path) -> list[str]:
    """A program that does nothing, in the mount namespace of the node, which ends with it and what runs in it."""
    binds = [(folder / "cores", "/sys/devices/system/node")]
    binds += [(folder / "sysctls" / key.replace("/", "."), f"/proc/sys/{key}") for key in _SYSCTLS]
    lines = [f"mount --bind {shlex.quote(str(own))} {place}" for own, place in binds]
    for place in _STATE:
        own = shlex.quote(f"{folder}/state{place}")
        lines.append(f"mkdir -p {own} {place} && mount --bind {own} {place}")
    script = " && ".join([*lines, f"touch {shlex.quote(str(folder))}/mounted", "exec sleep infinity"])
    return ["unshare", "--mount", "--propagation", "slave", "sh", "-c", script]


def containerd(folder: Path, pid: int) -> list[str]:
    """containerd, in the namespace of this process."""
    return [*_entered(pid), "containerd", "--config", str(folder / "containerd.toml")]


def kubelet(folder: Path, pid: int, name: str, addresses: Addresses) -> list[str]:
    """The kubelet, in the namespace of this process."""
    socket = f"unix://{folder}/containerd.sock"
    runtime = ["--container-runtime=remote"] if minor() < 24 else []
    runtime += [f"--container-runtime-endpoint={socket}"] if minor() < 27 else []
    return [
        *_entered(pid), "kubelet", f"--kubeconfig={folder.parent}/certificates/{name}.kubeconfig",
        f"--config={folder}/kubelet.yaml", f"--root-dir={folder}/kubelet", f"--hostname-override={name}",
        f"--node-ip={addresses.node(name)}", *runtime,
    ]  # fmt: skip


def _entered(pid: int) -> list[str]:
    return ["nsenter", f"--mount=/proc/{pid}/ns/mnt"]


def _kubelet(folder: Path, name: str, addresses: Addresses) -> dict[str, object]:
    authority = {"clientCAFile": f"{folder.parent}/certificates/ca.crt"}
    newer: dict[str, object] = {"containerRuntimeEndpoint": f"unix://{folder}/containerd.sock"} if minor() >= 27 else {}
    newer |= {"failCgroupV1": False} if minor() >= 31 else {}
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": addresses.node(name),
        "healthzBindAddress": addresses.node(name),
        "authentication": {"anonymous": {"enabled": False}, "webhook": {"enabled": False}, "x509": authority},
        "authorization": {"mode": "AlwaysAllow"},
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": addresses.cgroup(name),
        "enforceNodeAllocatable": [],
        "evictionHard": {},
        "failSwapOn": False,
        "imageGCHighThresholdPercent": 100,
        "makeIPTablesUtilChains": False,
        "nodeStatusUpdateFrequency": "2s",
        "registryPullQPS": 0,
        "serializeImagePulls": False,
        "syncFrequency": "5s",
        **newer,
    }


def _network(folder: Path, name: str, addresses: Addresses) -> dict[str, object]:
    ranges = {"ranges": [[{"subnet": addresses.pods(name)}]], "routes": [{"dst": "0.0.0.0/0"}]}
    bridge = {
        "type": "bridge",
        "bridge": addresses.pod_bridge(name),
        "isGateway": True,
        "ipam": {"type": "host-local", "dataDir": f"{folder}/addresses", **ranges},
    }
    return {"cniVersion": "0.4.0", "name": addresses.pod_bridge(name), "plugins": [bridge, {"type": "loopback"}]}


def _write_cores(folder: Path) -> None:
    """Cores as /sys/devices/system/node names them."""
    for number in range(CORES):
        core = folder / f"cpu{number}"
        (core / "topology").mkdir(parents=True)
        (core / "online").write_text("1\n")
        (core / "topology" / "core_id").write_text(f"{number}\n")
        (core / "topology" / "physical_package_id").write_text("0\n")
