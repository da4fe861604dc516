"""The sources of evidence: ends of logs, control groups, GPUs, torchelastic's error file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kedge.diagnose.model import LOG_TAIL
from kedge.runtime.logs import tails
from kedge.runtime.logs.rotate import label
from kedge.runtime.postmortem import collect, gpus
from kedge.runtime.process import cgroup, procfs
from kedge.runtime.process.cgroup import OomKills

PROBE = Path(gpus.__file__).with_name("gpu_probe.py")


def test_the_end_of_a_log_runs_across_its_rotated_files(tmp_path):
    (tmp_path / "user-all").mkdir()
    files = {label(100) + ".s": b"of an earlier start\n", label(300) + ".s": b"one\ntw", "current": b"o\nthree\n"}
    for name, text in files.items():
        (tmp_path / "user-all" / name).write_bytes(text)
    tail = tails.of_stream(str(tmp_path), "user-all", 200)
    assert tail.content == b"one\ntwo\nthree\n"
    rotated = f"user-all/{label(300)}.s"
    places = [tail.place(line) for line in (1, 2, 3)]
    assert [(p["file"], p["line"]) for p in places] == [(rotated, 1), ("user-all/current", 1), ("user-all/current", 2)]


def test_only_the_end_of_a_long_log_is_read_and_its_lines_keep_their_numbers(tmp_path):
    lines = [b"%09d\n" % n for n in range(1, 1_200_001)]
    (tmp_path / "runtime.log").write_bytes(b"".join(lines))
    tail = tails.of_file(str(tmp_path), "runtime.log")
    assert len(tail.content) == LOG_TAIL
    last = tail.content.count(b"\n")
    assert tail.content.endswith(lines[-1])
    assert tail.place(last) == {"file": "runtime.log", "line": 1_200_000}


@pytest.mark.parametrize("name", ["user-all", "runtime.log"])
def test_a_log_that_is_not_there_is_empty(tmp_path, name):
    read = tails.of_file if name == "runtime.log" else lambda folder, name: tails.of_stream(folder, name, 0)
    tail = read(str(tmp_path), name)
    assert tail.content == b""
    assert tail.place(1) == {"file": name, "line": 1}


def write(root, path, text):
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


V2 = "low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 0\n"
V1 = "oom_kill_disable 0\nunder_oom 0\noom_kill 5\n"


@pytest.mark.parametrize(
    ("own", "file", "text", "kills"),
    [
        ("0::/job/task\n", "job/task/memory.events", V2, 2),
        ("0::/job/task\n", "memory.events", V2, 2),  # the own group is what a container sees as the root
        ("0::/job/kedge-run\n", "job/memory.events", V2, 2),  # a group of kedge's own has no counters
        ("9:name=systemd:/\n4:memory:/job\n0::/\n", "memory/job/memory.oom_control", V1, 5),
        ("4:cpu,memory:/job\n", "memory/memory.oom_control", V1, 5),
        ("4:memory:/\n", "memory/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\n", None),  # before Linux 4.13
        ("0::/\n", "cgroup.procs", "1\n", None),  # the root group counts nothing
    ],
)
def test_where_the_counter_of_kills_is(tmp_path, own, file, text, kills):
    write(tmp_path, "own", own)
    write(tmp_path, f"fs/{file}", text)
    found = cgroup.read_oom_kills(str(tmp_path / "fs"), str(tmp_path / "own"))
    assert found == (kills and OomKills(str((tmp_path / "fs" / file).parent), kills))


def test_kills_are_counted_from_a_reading_on(tmp_path):
    write(tmp_path, "memory.events", V2)
    assert cgroup.kills_since(OomKills(str(tmp_path), 0)) == 2
    assert cgroup.kills_since(OomKills(str(tmp_path), 2)) == 0
    assert cgroup.kills_since(OomKills(str(tmp_path / "gone"), 1)) == 0


def test_a_group_is_the_tasks_own_if_nobody_else_is_in_it(tmp_path):
    write(tmp_path, "cgroup.procs", "12\n7\n")
    assert cgroup.holds_only(str(tmp_path), {7, 12, 13})
    assert not cgroup.holds_only(str(tmp_path), {7})
    assert not cgroup.holds_only(str(tmp_path / "gone"), {7})
    (tmp_path / "run").mkdir()
    write(tmp_path / "run", "cgroup.procs", "13\n")
    assert cgroup.holds_only(str(tmp_path), {7, 12, 13})
    assert not cgroup.holds_only(str(tmp_path), {7, 12})


FORKS = """
import os, subprocess
agent = os.fork() or (os.read(0, 1), os._exit(0))
user = subprocess.Popen(["cat"])
print(os.getpid(), agent, user.pid, flush=True)
os.read(0, 1)
"""


def test_the_processes_that_kedge_adds_to_a_group_are_known():
    """A keeper and its agent, but not what else was adopted."""
    with subprocess.Popen([sys.executable, "-c", FORKS], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as keeper:
        pid, agent, user = map(int, keeper.stdout.readline().split())
        assert procfs.forks(pid) == [pid, agent]
        assert user in [each.pid for each in procfs.descendants(pid)]
        keeper.stdin.close()


def test_without_a_driver_the_probe_finds_nothing():
    command = [sys.executable, "-I", "-S", str(PROBE)]
    assert subprocess.run(command, capture_output=True, check=True).stdout == b"[]\n"


HEALTH = r"""
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
typedef struct {
    unsigned field, scope;
    long long timestamp, latency;
    unsigned type, result;
    unsigned long long value;
} Field;
int nvmlInit_v2(void) {
    if (getenv("FAKE_HANG")) for (;;) pause();
    return 0;
}
int nvmlDeviceGetCount_v2(unsigned *n) { *n = 3; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **device) {
    *device = (void *)(long)(i + 1);
    return i == 1 ? 15 : 0;
}
int nvmlDeviceGetUUID(void *device, char *uuid, unsigned size) {
    snprintf(uuid, size, "GPU-%ld", (long)device - 1);
    return 0;
}
int nvmlDeviceGetTotalEccErrors(void *device, int type, int counter, unsigned long long *count) {
    *count = type == 1 && counter == 0 ? 4 : 99;
    return (long)device == 1 ? 0 : 3;
}
int nvmlDeviceGetRetiredPages(void *device, int cause, unsigned *count, void *pages) {
    *count = cause + 1;
    return pages ? 2 : 7;
}
int nvmlDeviceGetRemappedRows(void *device, unsigned *cor, unsigned *unc, unsigned *pending, unsigned *failed) {
    *cor = 1; *unc = 2; *pending = 0; *failed = 1;
    return 0;
}
int nvmlDeviceGetFieldValues(void *device, int n, Field *asked) {
    asked->result = asked->field == 230 && n == 1 ? 0 : 3;
    asked->value = 2;
    return 0;
}
"""


@pytest.fixture(scope="module")
def healthy_driver(tmp_path_factory, driver):
    """A folder with a stand-in for the NVIDIA driver's library that tells how GPUs are; the second of three is lost."""
    folder = tmp_path_factory.mktemp("health")
    (folder / "nvml.c").write_text(HEALTH)
    compiled = ["cc", "-shared", "-fPIC", "-o", folder / "libnvidia-ml.so.1", folder / "nvml.c"]
    subprocess.run(compiled, check=True)
    return folder


def ask(folder, deadline=30.0, **environment):
    """The result of facts() in a process that loads libraries from `folder`."""
    facts = f"gpus.facts(dict(os.environ), 0.0, {deadline})"
    program = f"import json, os; from kedge.runtime.postmortem import gpus; print(json.dumps({facts}))"
    everything = {**os.environ, "LD_LIBRARY_PATH": str(folder), **environment}
    done = subprocess.run([sys.executable, "-c", program], env=everything, capture_output=True, check=True)
    return json.loads(done.stdout)


def test_the_driver_is_asked_how_the_gpus_are(healthy_driver):
    told = ask(healthy_driver)
    told.pop("gpu_xid", None)
    assert told == {
        "ecc_errors": 4,
        "gpu_recovery_action": 2,
        "gpu_retired_pages": 6,
        "gpu_remapped_rows": 4,
        "gpu_remap_failures": 2,
    }


def test_a_driver_that_hangs_tells_nothing(healthy_driver):
    assert ask(healthy_driver, 0.3, FAKE_HANG="1") == {}


@pytest.mark.parametrize(("visible", "errors"), [("0", 4), ("GPU-0", 4), ("2", None), ("", None)])
def test_only_the_tasks_own_gpus_count(healthy_driver, visible, errors):
    assert ask(healthy_driver, CUDA_VISIBLE_DEVICES=visible).get("ecc_errors") == errors


SMI = """<?xml version="1.0" ?>
<nvidia_smi_log>
  <gpu id="00000000:3B:00.0">
    <uuid>GPU-0</uuid>
    <ecc_errors><volatile>{old}{new}</volatile><aggregate><double_bit><total>77</total></double_bit></aggregate></ecc_errors>
    <retired_pages>
      <multiple_single_bit_retirement><retired_count>1</retired_count></multiple_single_bit_retirement>
      <double_bit_retirement><retired_count>2</retired_count></double_bit_retirement>
    </retired_pages>
    <remapped_rows><remapped_row_unc>3</remapped_row_unc><remapped_row_failure>Yes</remapped_row_failure></remapped_rows>
  </gpu>
  <gpu id="00000000:5E:00.0">
    <uuid>GPU-1</uuid>
    <ecc_errors><volatile><double_bit><total>N/A</total></double_bit></volatile></ecc_errors>
  </gpu>
</nvidia_smi_log>
"""
OLD = (
    "<single_bit><total>9</total></single_bit><double_bit><device_memory>2</device_memory><total>2</total></double_bit>"
)
NEW = (
    "<dram_uncorrectable>1</dram_uncorrectable><sram_uncorrectable_parity>N/A</sram_uncorrectable_parity>"
    "<sram_uncorrectable_secded>4</sram_uncorrectable_secded>"
)


@pytest.mark.parametrize(("old", "new", "errors"), [(OLD, "", 2), ("", NEW, 5), ("", "", None)])
def test_old_and_new_fields_of_nvidia_smi(old, new, errors):
    found = gpus.parse_smi(SMI.format(old=old, new=new))
    assert [gpu["uuid"] for gpu in found] == ["GPU-0", "GPU-1"]
    facts = gpus.summary(found)
    assert facts.get("ecc_errors") == errors
    assert (facts["gpu_retired_pages"], facts["gpu_remapped_rows"], facts["gpu_remap_failures"]) == (3, 3, 1)


def test_nvidia_smi_is_asked_where_the_library_tells_nothing(tmp_path):
    program = tmp_path / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n[ \"$*\" = '-q -x' ] && cat <<'EOF'\n{SMI.format(old=OLD, new='')}\nEOF\n")
    program.chmod(0o755)
    assert ask(tmp_path, PATH=f"{tmp_path}:{os.environ['PATH']}")["ecc_errors"] == 2


def test_the_last_error_code_in_the_kernels_log():
    log = (
        b"3,100,5000000,-;NVRM: Xid (PCI:0000:3b:00): 31, pid=1, name=python\n"
        b"6,101,6000000,-;usb 1-1: new device\n"
        b"3,102,7000000,-;NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n"
    )
    assert gpus.last_xid(log, 6.5) == 79
    assert gpus.last_xid(log[: log.rindex(b"3,102")], 4.0) == 31
    assert gpus.last_xid(log, 7.5) is None


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ({"message": "boom"}, "boom"),
        ({"message": {"message": "ValueError: x", "extraInfo": {"py_callstack": "Traceback…"}}}, "Traceback…"),
        ({"message": {"message": "Signal 9 (SIGKILL) received by PID 7"}}, "Signal 9 (SIGKILL) received by PID 7"),
        ({"message": {"message": "x", "extraInfo": None}}, "x"),
        ({}, ""),
        ([], ""),
    ],
)
def test_the_forms_of_torchelastics_error_file(data, text):
    assert collect.error_text(data) == text


def test_a_report_that_is_too_large_for_the_disk_goes_without_its_diagnosis(tmp_path):
    program = f"""
import resource
from kedge.contract import Report
from kedge.runtime.events import write_report
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
report = Report("worker:0", 0, 0, 255, 1, "command-failed", "it failed", "", "", 1.0)
write_report({str(tmp_path)!r}, report._replace(diagnosis={{"cause": "x" * 1000}}))
"""
    subprocess.run([sys.executable, "-c", program], check=True)
    report = json.loads((tmp_path / "report.json").read_text())
    assert (report["exit_code"], report["diagnosis"]) == (255, None)
