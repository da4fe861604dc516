"""Init program: Read a framework once, for jobs whose tasks do not wait for each other.

    frameworkRetriever [FILE]

Writes the framework to FILE (framework.json). Tasks that have not started yet have no address in it.
"""

from __future__ import annotations

import os
import time

from kedge.dropin.cluster import access, barrier, framework_files, framework_request, framework_settings
from kedge.dropin.cluster.access import ApiServer, CannotReachCluster
from kedge.dropin.cluster.framework_request import FrameworkName, ReadFailed
from kedge.dropin.cluster.framework_settings import BadSetting
from kedge.dropin.init_log import InitLog
from kedge.dropin.program import FAILED, SUCCEEDED, InitContext
from kedge.light.types import Any, NamedTuple, Sequence

TRANSIENT = 200
_REQUEST_SEC = 30.0


class Patience(NamedTuple):
    """How often to try, and the first pause, which doubles up to `longest_sec`."""

    tries: int = 6
    first_sec: float = 1.0
    longest_sec: float = 30.0

    def pause(self, done: int, wanted_sec: float) -> float:
        """Seconds to wait after so many tries: a random part of the limit, and what the server wants."""
        part = int.from_bytes(os.urandom(4), "big") / (1 << 32)
        limit = min(self.longest_sec, self.first_sec * 2.0 ** (done - 1))
        return min(self.longest_sec, wanted_sec) + limit * part


PATIENCE = Patience()


def run(arguments: Sequence[str], context: InitContext) -> int:
    """Read the framework. 0; 200 if the server does not answer or is overloaded; 210 if there is no such framework or a
    variable is wrong; 1 if the server refuses the request or a file cannot be written."""
    code, reason = _result(arguments, context)
    if code:
        context.log.error(f"ExitCode: {code}: {reason}")
    return code


def _result(arguments: Sequence[str], context: InitContext) -> tuple[int, str]:
    environment = context.environment
    try:
        name = framework_settings.framework_name(environment)
        framework = retrieve(access.find(environment), name, context.log)
        barrier.write(framework_files.with_role_names(framework, environment), arguments, context.log)
    except BadSetting as error:
        return barrier.PERMANENT, str(error)
    except CannotReachCluster as error:
        return FAILED, str(error)
    except ReadFailed as error:
        return exit_code(error), reason(error)
    except OSError as error:
        return FAILED, f"{error.filename} cannot be written: {error.strerror}"
    return SUCCEEDED, ""


def retrieve(server: ApiServer, name: FrameworkName, log: InitLog, patience: Patience = PATIENCE) -> dict[str, Any]:
    """The framework. After a failure the request is repeated, with pauses of random length. ReadFailed."""
    done = 0
    while True:
        try:
            return framework_request.get(server, name, _REQUEST_SEC)
        except ReadFailed as failed:
            done += 1
            log.warning(f"Failed to get Framework object from ApiServer: {failed}")
            if failed.advice and done == 1:
                log.warning(failed.advice)
            if failed.not_found or done == patience.tries:
                raise
            time.sleep(patience.pause(done, failed.pause_sec))


def exit_code(failed: ReadFailed) -> int:
    """The exit code for a framework that was not read."""
    if failed.not_found:
        return barrier.PERMANENT
    return TRANSIENT if failed.transient else FAILED


def reason(failed: ReadFailed) -> str:
    """Why a framework was not read, and what to do, for the last line of the log."""
    return f"the Framework object could not be read: {failed}{barrier.advice(failed)}"
