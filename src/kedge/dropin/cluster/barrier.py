"""Init program: Wait until all tasks of a framework have an address, so that all of them start or none.

    frameworkBarrier [FILE]

Writes the framework to FILE (framework.json), and a script with all addresses, injector.sh, beside it.
"""

from __future__ import annotations

import os
import time

from kedge.dropin.cluster import access, framework_files, framework_request, framework_settings, framework_status
from kedge.dropin.cluster.access import ApiServer, CannotReachCluster
from kedge.dropin.cluster.framework_request import ReadFailed
from kedge.dropin.cluster.framework_settings import BadSetting, BarrierSettings
from kedge.dropin.cluster.framework_status import OwnTask, Readiness
from kedge.dropin.init_log import InitLog
from kedge.dropin.net.http_client import without_secrets
from kedge.dropin.program import FAILED, SUCCEEDED, InitContext
from kedge.light.types import Any, Mapping, Sequence

FRAMEWORK_FILE = "framework.json"
INJECTOR_FILE = "injector.sh"
NOT_ALL_IN_TIME = 201
PERMANENT = 210
_REQUEST_SEC = 30.0
_LEAST_SEC = 5.0  # for a request near the end


class Failed(Exception):
    """The barrier ends with a code other than 0."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code


def run(arguments: Sequence[str], context: InitContext) -> int:
    """Wait. 0 when all tasks are ready; 201 if they are not in time; 210 if there is no such framework or a variable is
    wrong; 1 if the framework could not be read or a file not be written."""
    context.log.info("Initializing frameworkbarrier")
    code, reason = _result(arguments, context)
    (context.log.error if code else context.log.info)(f"ExitCode: {code}: {reason}")
    return code


def _result(arguments: Sequence[str], context: InitContext) -> tuple[int, str]:
    environment, log = context.environment, context.log
    try:
        settings = framework_settings.barrier_settings(environment)
        log.info(_shown(settings, environment))
        server = access.find(environment)
        log.info(f"Running frameworkbarrier: reads the Framework from {without_secrets(server.url)}")
        framework = wait(settings, server, OwnTask.of(environment), log)
        write(framework_files.with_role_names(framework, environment), arguments, log)
    except BadSetting as error:
        return PERMANENT, str(error)
    except CannotReachCluster as error:
        return FAILED, str(error)
    except Failed as failed:
        return failed.code, str(failed)
    except OSError as error:
        return FAILED, f"{error.filename} cannot be written: {error.strerror}"
    return SUCCEEDED, "Exit with success."


def wait(settings: BarrierSettings, server: ApiServer, own: OwnTask | None, log: InitLog) -> dict[str, Any]:
    """The framework, once all of its tasks have an address. It is read at once and then after four fifths of the
    interval to the whole, or later if the server asks for it."""
    end = time.monotonic() + settings.timeout
    advised = False
    while True:
        error, pause = None, _spread(0.8 * settings.interval)
        try:
            left = max(_LEAST_SEC, end - time.monotonic())
            framework = framework_request.get(server, settings.framework, min(_REQUEST_SEC, left))
            if _is_ready(framework_status.readiness(framework, own), own, log):
                return framework
        except ReadFailed as failed:
            log.warning(f"Failed to get Framework object from ApiServer: {failed}")
            if failed.not_found:
                raise Failed(PERMANENT, str(failed)) from None
            if failed.advice and not advised:
                log.warning(failed.advice)
                advised = True
            error, pause = failed, max(pause, _spread(failed.pause_sec))
        if (left := end - time.monotonic()) <= 0:
            raise _late(settings, error)
        time.sleep(min(left, pause))


def write(framework: Mapping[str, Any], arguments: Sequence[str], log: InitLog) -> None:
    """Write the framework's files. OSError."""
    file = arguments[0] if arguments else FRAMEWORK_FILE
    injector = os.path.join(os.path.dirname(file), INJECTOR_FILE)
    framework_files.write(framework, file)
    log.info(f"Succeeded to dump the Framework object to local file: {_local(file)}")
    framework_files.write_injector(framework, injector)
    log.info(f"Succeeded to generate the injector script to local file: {_local(injector)}")


def _is_ready(found: Readiness, own: OwnTask | None, log: InitLog) -> bool:
    ready = found.ready >= found.total
    counts = f"{found.ready}/{found.total} Tasks are ready with not nil PodIP."
    log.info(f"{'BarrierPassed' if ready else 'BarrierNotPassed'}: {counts}")
    if ready:
        log.info("BarrierSucceeded: All Tasks are ready with not nil PodIP.")
    elif own and found.recorded_pod is not None:
        recorded = found.recorded_pod or "no pod"
        log.info(f"The Framework records {recorded} for this task, which is not this pod, {own.pod_uid}.")
    return ready


def _late(settings: BarrierSettings, error: ReadFailed | None) -> Failed:
    if error is None:
        return Failed(NOT_ALL_IN_TIME, f"not all Tasks were ready within {settings.timeout:g} seconds")
    reason = f"the Framework object could not be read within {settings.timeout:g} seconds: {error}"
    return Failed(FAILED, reason + advice(error))


def advice(error: ReadFailed) -> str:
    """What to do about a refused request, as a sentence after the reason; empty for other failures."""
    return f". {error.advice[:1].upper()}{error.advice[1:]}" if error.advice else ""


def _spread(seconds: float) -> float:
    """The time, or up to a quarter more, so that the tasks of a large job do not ask all at once."""
    return seconds * (1 + 0.25 * int.from_bytes(os.urandom(4), "big") / (1 << 32))


def _shown(settings: BarrierSettings, environment: Mapping[str, str]) -> str:
    lines = {
        "kubeApiServerAddress": f'"{without_secrets(environment.get("KUBE_APISERVER_ADDRESS", ""))}"',
        "kubeConfigFilePath": f'"{access.kubeconfig_file(environment) or ""}"',
        "frameworkNamespace": settings.framework.namespace,
        "frameworkName": settings.framework.name,
        "barrierCheckIntervalSec": f"{settings.interval:g}",
        "barrierCheckTimeoutSec": f"{settings.timeout:g}",
    }
    return "With Config: " + "".join(f"\n{name}: {value}" for name, value in lines.items())


def _local(path: str) -> str:
    return path if "/" in path else f"./{path}"
