"""Causes that facts about the machine prove better than a log: OOM kills, full disks, missing GPUs."""

from __future__ import annotations

from kedge.contract import SHELL_KILLED
from kedge.diagnose.decide.candidates import Candidate
from kedge.diagnose.decide.select import effect
from kedge.diagnose.model import Evidence
from kedge.diagnose.regex import regex

BUS_ERROR = 135
FULL = 1 << 20  # bytes: with less than this free, a write has failed or will fail soon
_DISKS = ("disk_free_bytes", "work_free_bytes", "tmp_free_bytes")

# Causes that a program reports after its child, worker or peer was killed.
_BY_A_KILL = {
    "peer_failure", "remote_worker_lost", "network_transient", "nccl_network", "nccl_init_error", "nccl_timeout",
    "rendezvous_failure", "sigkill_unattributed", "sigterm_unattributed", "unknown", "job_cancelled",
}  # fmt: skip
_BY_A_KILL_TYPES = {"EOFError", "Empty", "UnpicklingError", "IncompleteReadError", "BrokenPipeError"}
_MEMORY = {"host_oom_kill", "host_oom_alloc"}
# Causes that a write to a full disk may look like, and texts that show that something was being written.
_BY_A_FULL_DISK = {"python_bug", "storage_hang", "output_path_error", "data_corrupt", "checkpoint_corrupt", "unknown",
                   "native_crash", "tracker_failure"}  # fmt: skip
_WRITING = (
    rb"(?i)\bwrit(?:e|es|ing|ten|er)\b|\bsav(?:e|ing)\b|\.save\(|\bdump(?:ing)?\b|\bflush|\bclose\(|\bcopy|"
    rb"inline_container|unexpected pos|\bdisk i/o\b|\bextract|\bappend"
)
# Causes that a program reports when it finds no GPU or no driver.
_BY_NO_GPU = {"python_bug", "driver_mismatch", "gpu_hw_fault", "shared_lib_missing", "unknown", "native_crash"}
_CUDA = rb"(?i)\bcuda\w*\b|\bnvidia\b|\blibcuda\.so|\bnvml\b|\bcuInit\b|\bno (?:gpu|accelerator)s?\b"
_BUILD = rb"(?i)compiled with|not compiled|libcud(?:art|nn)|libcublas|out of memory|device-side|illegal"


def overruling(best: Candidate | None, evidence: Evidence) -> str:
    """The cause that the facts prove in place of the log's best candidate; empty if that candidate stands."""
    if best is not None and best.cause in _MEMORY:
        return ""
    if evidence.facts.get("oom_kills", 0) > 0 and _left_by_a_kill(best, evidence):
        return "host_oom_kill"
    if evidence.exit_code == BUS_ERROR and evidence.facts.get("shm_free_bytes", FULL) < FULL:
        return "shm_exhausted"
    if best is None:
        return ""
    if best.cause in _BY_A_FULL_DISK and _full(evidence) and regex(_WRITING).search(_text(best)):
        return "disk_full"
    if best.cause in _BY_NO_GPU and evidence.facts.get("gpus") == 0 and _asks_for_a_gpu(best):
        return "gpu_unavailable"
    return ""


def _left_by_a_kill(best: Candidate | None, evidence: Evidence) -> bool:
    if best is None or evidence.exit_code == SHELL_KILLED or best.role == "symptom" or effect(best):
        return True
    if best.cause in _BY_A_KILL:
        return True
    return best.block is not None and best.block.type in _BY_A_KILL_TYPES


def _full(evidence: Evidence) -> bool:
    return any(evidence.facts.get(name, FULL) < FULL for name in _DISKS)


def _asks_for_a_gpu(best: Candidate) -> bool:
    return bool(regex(_CUDA).search(best.line.body)) and not regex(_BUILD).search(best.line.body)


def _text(best: Candidate) -> bytes:
    """The candidate's line, and the failing lines of its traceback."""
    sources = best.block.sources if best.block else ()
    return b"\n".join([best.line.body, *(line.body for line in sources[-12:])])
