"""One init phase: the folder of the logs is prepared, the work folder is cleaned and gets the runtime's tree, and the
steps run one after the other, until one fails."""

from __future__ import annotations

import os

from kedge.dropin import exit_codes, programs, specification, steps, work_folder
from kedge.dropin.child import run_program
from kedge.dropin.exit_codes import BROKE, ErrorMapping, container_code
from kedge.dropin.init_log import InitLog
from kedge.dropin.paths import (
    CONFIG_VARIABLE,
    EXIT_SPEC,
    JOB_CONFIG,
    LOG_VARIABLE,
    RUNTIME_ENV,
    RUNTIME_VARIABLE,
    TASK_SPEC,
    WORK_VARIABLE,
    InitPaths,
    mounted_file,
)
from kedge.dropin.program import InitContext
from kedge.dropin.steps import InitStep
from kedge.light.types import Iterator

_BARRIER_LOG = "barrier.log"
_WAITING = frozenset({exit_codes.BARRIER, exit_codes.RETRIEVER})


class Signalled(BaseException):
    """A signal arrived that ends the init phase."""

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(number)


class StepFailed(Exception):
    """A step failed with the exit code `code`."""

    def __init__(self, label: str, code: int, errors: tuple[ErrorMapping, ...] = ()) -> None:
        self.label, self.code, self.errors = label, code, errors
        super().__init__(label)


class InitPhase:
    """The init phase with these paths, in this environment."""

    def __init__(self, paths: InitPaths, environment: dict[str, str]) -> None:
        self._paths = paths
        self._environment = environment | _variables(paths, environment)
        self._log = InitLog()

    def run(self, tree: str | None) -> int:
        """Do everything, and return the exit code of the container. `tree` is the folder with the runtime's tree; None
        if the work folder has it already."""
        try:
            self._prepare(tree)
            for step in self._steps():
                self._run_step(step)
            self._show_environment()
        except StepFailed as failed:
            code = self._code(failed)
            self._log.error(f"child process is {failed.label}, exit code is {failed.code}")
            return code
        except Signalled as signalled:
            import signal  # makes enumerations, which takes a third of an interpreter's start

            self._log.error(f"{signal.Signals(signalled.number).name} ends the init phase")
            return 128 + signalled.number
        except OSError as error:
            self._log.error(f"{error.filename}: {error.strerror}" if error.filename else str(error))
            return BROKE
        return 0

    def _code(self, failed: StepFailed) -> int:
        for row in failed.errors:
            if row.origin == failed.code:
                self._log.info(f"the row {row.name!r} in 'errors' makes that the exit code {row.mapped}")
                break
        return container_code(failed.label, failed.code, failed.errors)

    def _prepare(self, tree: str | None) -> None:
        paths = self._paths
        moved = work_folder.prepare_logs(paths.logs)
        self._log = self._log.with_file(f"{paths.logs}/{work_folder.INIT_LOG}")
        if moved:
            self._log.info(f"the container was restarted; its earlier logs are in {moved}")
        if tree:
            work_folder.clean(paths.work, self._log)
            work_folder.fill(tree, paths.work)
        for folder in (paths.init_d, paths.runtime_d):
            os.makedirs(folder, exist_ok=True)
        work_folder.make_executable(paths.init_d)
        os.chdir(paths.work)

    def _steps(self) -> Iterator[InitStep]:
        """All steps. Later ones depend on what earlier ones have written."""
        paths, log = self._paths, self._log
        found = specification.find(paths, self._environment, log)
        self._copy_exit_spec()
        if found is None:
            raise StepFailed(specification.LABEL, BROKE)
        if found.plugins is not None:
            os.chdir(paths.init_d)
            yield from steps.specified(found.plugins, paths.init_d)
        elif found.of_framework or found.names_a_command:
            yield from steps.built_in(self._environment, paths.init_d, of_framework=found.of_framework)
        if found.plugins is None:
            yield from steps.of_site(paths.init_d)
        elif not os.path.exists(f"{paths.runtime_d}/{TASK_SPEC}") and (
            found.names_a_command or os.path.exists(f"{paths.runtime_d}/{JOB_CONFIG}")
        ):
            yield steps.task_spec_step()

    def _copy_exit_spec(self) -> None:
        """The failure patterns that a site configures. Without any, the runtime has its own."""
        source = mounted_file(f"{self._paths.config}/{EXIT_SPEC}")
        if not os.path.isfile(source):
            self._log.info(f"{source} does not exist; the built-in exit specification applies")
            return
        try:
            work_folder.copy_file(source, f"{self._paths.runtime_d}/{EXIT_SPEC}")
        except OSError as error:
            self._log.error(f"{source} cannot be copied: {error.strerror}")
            raise StepFailed(exit_codes.EXIT_SPEC, BROKE) from error

    def _run_step(self, step: InitStep) -> None:
        log = self._log
        if step.label in _WAITING:
            log = log.with_file(f"{self._paths.logs}/{_BARRIER_LOG}")
        self._log.info(f"{step.label} starts")
        if step.program:
            code = programs.run_safely(step.program, step.words, InitContext(self._paths, self._environment, log))
        else:
            code = run_program(step.words, self._environment, log)
        if code:
            raise StepFailed(step.label, code, step.errors)

    def _show_environment(self) -> None:
        """For whoever looks for an error in a job."""
        try:
            with open(f"{self._paths.runtime_d}/{RUNTIME_ENV}", "rb") as file:
                self._log.write(file.read())
        except FileNotFoundError:
            pass


def _variables(paths: InitPaths, environment: dict[str, str]) -> dict[str, str]:
    """What programs find in their environment."""
    return {
        WORK_VARIABLE: paths.work,
        CONFIG_VARIABLE: paths.config,
        RUNTIME_VARIABLE: paths.runtime_d,
        LOG_VARIABLE: paths.logs,
        "PATH": f"{paths.init_d}:{environment.get('PATH') or os.defpath}",
    }
