"""The evidence of one failed attempt: its logs, its exit codes, and facts about the machine."""

from __future__ import annotations

import os
import resource
import stat

from kedge import contract, untrusted
from kedge.contract import TaskSpec
from kedge.diagnose.model import Evidence
from kedge.light.types import Any, Mapping, NamedTuple
from kedge.runtime.files import remove
from kedge.runtime.logs import tails
from kedge.runtime.logs.mask import masked
from kedge.runtime.logs.tails import LogTail
from kedge.runtime.postmortem.case import FailedAttempt
from kedge.runtime.process import cgroup
from kedge.runtime.setup import environment

_DRIVER = ("/dev/nvidiactl", "/proc/driver/nvidia/version", "/dev/dxg")
_OTHER_GPUS = ("/dev/kfd", "/dev/davinci_manager")  # AMD, Ascend
_ERROR_BYTES = 1 << 20  # read at most of torchelastic's error file


class Collected(NamedTuple):
    """Evidence, and the logs it was taken from."""

    evidence: Evidence
    user: LogTail
    platform: LogTail


def collect(case: FailedAttempt) -> Collected:
    """Collect all evidence. Whatever cannot be read is omitted."""
    spec, outcome = case.spec, case.outcome
    user = tails.of_stream(spec.folder, contract.USER_ALL, case.started)
    platform = tails.of_file(spec.folder, contract.RUNTIME_LOG)
    logs = [(user.name, user.content), (platform.name, platform.content)]
    if outcome.step is None:
        logs[1] = (platform.name, _without_services(platform.content, spec))
    elif outcome.stopped_by is None:  # a hook failed, and hooks print to runtime.log
        logs.reverse()
    code = outcome.exit_code if outcome.user_code is None else outcome.user_code
    if outcome.broken:  # the runtime ended the command and may not have been able to log why
        code = outcome.exit_code
        logs.insert(0, (contract.REPORT_FILE, outcome.message.encode(errors="replace")))
    evidence = Evidence(
        logs=tuple(logs),
        exit_code=code,
        facts={**_space(spec), **_open_files(case), **_oom_kills(case), **_gpus(case)},
        stopped_by=outcome.stopped_by,
        started=case.started / 1e9,
        ended=case.ended / 1e9,
        last_output=_last_output(spec.folder),
        error_file=_error_file(case),
        after_stop=case.after_stop,
    )
    return Collected(evidence, user, platform)


def _without_services(log: bytes, spec: TaskSpec) -> bytes:
    """The lines of runtime.log, with empty ones in place of those that services printed: what fails there is never the
    failure of the command."""
    names = {callback.service for step in spec.steps for callback in step.callbacks if callback.service}
    heads = tuple(f"[openpai-runtime] [{name}] ".encode() for name in names)
    lines = log.split(b"\n")
    return b"\n".join(b"" if line.partition(b"] ")[2].startswith(heads) else line for line in lines) if heads else log


def error_text(data: Any) -> str:
    """The text in torchelastic's error file: the traceback if there is one, else the message.

    The file has the form {"message": text or {"message": text, "extraInfo": {"py_callstack": text, …}}}, as written by
    torch.distributed.elastic.multiprocessing.errors."""
    message = data.get("message") if isinstance(data, dict) else None
    if isinstance(message, dict):
        stack = (message.get("extraInfo") or {}).get("py_callstack")
        return str(stack or message.get("message") or "")
    return str(message or "")


def _space(spec: TaskSpec) -> dict[str, float]:
    """The bytes that an ordinary user can still write, by file system."""
    inherited = environment.visible(os.environ, spec)
    places = {
        "work_free_bytes": spec.workdir,
        "tmp_free_bytes": inherited.get("TMPDIR") or "/tmp",  # noqa: S108  (measured, never written to)
        "shm_free_bytes": "/dev/shm",  # noqa: S108
    }
    free = {name: _free(path) for name, path in places.items()}
    return {name: size for name, size in free.items() if size is not None}


def _free(path: str) -> int | None:
    try:
        found = os.statvfs(path)
    except OSError:
        return None
    return found.f_bavail * found.f_frsize


def _open_files(case: FailedAttempt) -> dict[str, float]:
    """The limit of open files for a process of the task."""
    soft = case.open_files or resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return {} if soft == resource.RLIM_INFINITY else {"nofile": soft}


def _oom_kills(case: FailedAttempt) -> dict[str, float]:
    """`oom_kills` where all kills were certainly the task's, else `oom_kills_shared`."""
    if case.oom is None:
        return {}
    own = cgroup.holds_only(case.oom.folder, {*case.kedge, os.getpid()})
    return {"oom_kills" if own else "oom_kills_shared": cgroup.kills_since(case.oom)}


def _gpus(case: FailedAttempt) -> dict[str, float]:
    visible = environment.visible(os.environ, case.spec).get("CUDA_VISIBLE_DEVICES")
    if visible in ("", "-1") or not any(map(os.path.exists, (*_DRIVER, *_OTHER_GPUS))):
        return {"gpus": 0}
    if not any(map(os.path.exists, _DRIVER)):
        return {}
    from kedge.runtime.postmortem import gpus  # loads modules that nothing else needs

    return gpus.facts(environment.visible(os.environ, case.spec), case.tick)


def _last_output(folder: str) -> float | None:
    """When a stream was last written to, in seconds since 1970; None if the task printed nothing."""
    times = [_written(f"{folder}/{name}") for name in (contract.USER_STDOUT, contract.USER_STDERR)]
    return max(filter(None, times), default=None)


def _written(stream: str) -> float | None:
    try:
        found = os.stat(f"{stream}/{contract.CURRENT}")
        rotated = len(os.listdir(stream)) > 1
    except OSError:
        return None
    return found.st_mtime if found.st_size or rotated else None


def _error_file(case: FailedAttempt) -> str | None:
    """The text of the error file that this attempt wrote. It is masked here, because it was never in a masked log."""
    path = environment.error_file(environment.visible(os.environ, case.spec), case.spec)
    try:
        text = error_text(untrusted.parse(_read_regular(path, case.started)))
    except (OSError, ValueError, AttributeError):
        return None
    finally:
        if case.secrets:
            remove(f"{case.spec.folder}/{contract.ERROR_FILE}")  # it may hold secrets in forms that no mask finds
    data = masked(text.encode("utf-8", "surrogateescape"), case.secrets)
    return data.decode("utf-8", "replace") or None


def _read_regular(path: str, since: int) -> bytes:
    """Read a file that was written after `since` (nanoseconds since 1970). OSError if it is older or not a regular file
    (a FIFO would block)."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(fd, "rb", buffering=0) as file:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or found.st_mtime_ns < since:
            raise OSError(f"{path} was not written by this attempt")
        return file.read(_ERROR_BYTES) or b""


def summary(evidence: Evidence, progress: Mapping[str, int]) -> dict[str, Any]:
    """The value of Report.evidence."""
    last = evidence.last_output
    shown = None if last is None else contract.timestamp(int(last * 1e9))
    return {"facts": dict(evidence.facts), "last_output": shown, "progress": dict(progress)}
