"""A plan, one task's part of it, and an engine's requests, as text for people."""

from __future__ import annotations

import importlib
from collections.abc import Iterable

import yaml

from kedge.cli.streams import styled
from kedge.cli.view.requirement_graph import tree
from kedge.cli.view.wording import limit_texts, seconds
from kedge.contract import (
    OUTPUT_DIR_VARIABLE,
    STOP_COMMAND,
    Step,
    StopPolicy,
    TaskSpec,
    Text,
    duration_text,
    show_text,
    storage_variable,
)
from kedge.engines.base import EngineRequest
from kedge.plan.model import Plan, RolePlan, action_text
from kedge.resolve.model import Mount
from kedge.terminal_text import one_line, shortened

EVERY_TASK = "all tasks run to their end; the job fails if any task fails"


def plan_text(plan: Plan) -> str:
    """The whole plan."""
    gang = "all tasks start and are retried together" if plan.gang else "tasks are retried one by one"
    head = [
        f"{bold(plan.job)}  {plan.task_count} {'task' if plan.task_count == 1 else 'tasks'} for {plan.user}; {gang}",
        *_lines("retries", list(_retries(plan))),
        *([_row("done", EVERY_TASK)] if plan.every_task_succeeds else []),
        _row("stop", _stop(plan.stop)),
        *(
            [_row("time limit", f"{duration_text(plan.time_limit.limit_sec)} for the whole run")]
            if plan.time_limit
            else []
        ),
        *([_row("on failure", _hold(plan.hold_sec))] if plan.hold_sec else []),
        *(_row("code", f"{path} is copied {_copies(plan)}") for path in plan.code.values()),
        *(_row("storage", _storage(mount)) for mount in plan.mounts),
    ]
    return "\n".join((*head, *(_role_text(plan, role) for role in plan.roles)))


def _storage(mount: Mount) -> str:
    access = ", read-only" if mount.read_only else ""
    place = f", from {mount.place}" if mount.place else ""
    return one_line(f"{mount.name} at {mount.path}{access}{place}; ${storage_variable(mount.name)}")


def _role_text(plan: Plan, role: RolePlan) -> str:
    wanted = role.resources
    ports = ", ".join(f"{label} {count}" for label, count in wanted.ports.items())
    rows = [
        "",
        bold(f"{role.name} ×{role.instances}"),
        _row("image", f"{role.image}, locked as {role.pin}" if role.pin else role.image),
        _row("each", f"{wanted.cpu} CPU, {wanted.memory_mb} MiB, {wanted.gpu} GPU, ports {ports}"),
        *([] if plan.every_task_succeeds else [_row("done", _completion(role))]),
        *([] if role.stop == plan.stop else [_row("stop", _stop(role.stop))]),
        *_lines("time limit", list(_limits(plan, role))),
        _row("starts in", _where(plan, role)),
        *(_row("output", f"${OUTPUT_DIR_VARIABLE}/{name}") for name in role.outputs),
    ]
    rows += _lines("needs", list(tree(plan.requirements, role.name)))
    rows += _lines("env", [shortened(one_line(f"{name}={show_text(text)}")) for name, text in role.env.items()])
    return "\n".join((*rows, *_steps(role.steps), *_block("command", role.command)))


def _retries(plan: Plan) -> Iterable[str]:
    """What is retried, and how often."""
    most = plan.retry.max_transient
    transient = f"transient failures {'up to ' * (most > 0)}{_times(most)}"
    job = plan.retry.job
    yield f"{transient}, others {_times(job)} (jobRetryCount{' is 0' * (job == 0)})"
    counts = {role.name: _times(role.task_retry_count) for role in plan.roles}
    if not plan.gang and len(set(counts.values())) == 1:
        yield f"each task first on its own: {transient}, others {counts[plan.roles[0].name]} (taskRetryCount)"
    elif not plan.gang:
        others = ", ".join(f"{count} in {name}" for name, count in counts.items())
        yield f"each task first on its own: {transient}, others {others} (taskRetryCount)"
    if plan.rules and (spec := _exit_spec(plan.rules)):
        yield f"rows of {spec} take precedence"


def _exit_spec(rules: Iterable[str]) -> str | None:
    exitspec = importlib.import_module("kedge.diagnose.exit_spec.exitspec")  # most jobs have no rules
    return next(filter(exitspec.is_exit_spec, rules), None)


def _times(count: int) -> str:
    return {0: "never", 1: "once"}.get(count, f"{count} times")


def _limits(plan: Plan, role: RolePlan) -> Iterable[str]:
    task, attempt = (limit and limit.limit_sec for limit in (role.time_limit, role.attempt_time_limit))
    return limit_texts(task, attempt, role.warn_before_sec if plan.time_limit or task or attempt else None)


def _stop(stop: StopPolicy) -> str:
    whom = " to the command's own process" if stop.target == STOP_COMMAND else ""
    return f"SIG{stop.signal}{whom}, then SIGKILL after {duration_text(stop.grace_sec)}"


def _copies(plan: Plan) -> str:
    return "once, read-only for all tasks" if plan.shares_code else "once, and from there for each task attempt"


def _where(plan: Plan, role: RolePlan) -> str:
    if role.code:
        return f"{'the read-only' if plan.shares_code else 'its own'} copy of {plan.code[role.code]}"
    return "an empty folder per task; in a container, the image's working directory"


def _completion(role: RolePlan) -> str:
    failed, succeeded = role.completion.min_failed, role.completion.min_succeeded
    fails = f"{failed} failed {'task fails' if failed == 1 else 'tasks fail'} the job" if failed > 0 else ""
    ends = (
        f"{succeeded} succeeded {'task makes' if succeeded == 1 else 'tasks make'} it succeed" if succeeded > 0 else ""
    )
    return ", ".join(filter(None, (fails, ends))) or "it never ends the job, even if tasks fail"


def graph_text(plan: Plan) -> str:
    """Which role needs which prerequisites."""
    return "\n".join(
        line
        for role in plan.roles
        for line in (bold(role.name), *(f"  {row}" for row in tree(plan.requirements, role.name)))
    )


def task_text(plan: Plan, spec: TaskSpec) -> str:
    """What one task receives. Its placement is an example: folders, ports and ids are chosen when it runs."""
    values = {**{name: show_text(text) for name, text in spec.env.items()}, **spec.environment}
    environment = [one_line(f"{name}={value}") for name, value in sorted(values.items())]
    roles = ", ".join(role.name for role in plan.roles)
    return "\n".join(
        (
            bold(spec.task),
            _row("starts in", _where(plan, plan.role(spec.role))),
            _row("ports", ", ".join(f"{label} ×{len(numbers)}" for label, numbers in spec.ports.items())),
            *_steps(spec.steps),
            *_block("command", spec.command),
            *_lines("variables", environment),
            _row("at start", "PAI_HOST_IP_*, PAI_PORT_LIST_*, PAI_*_PORT and PAI_TASK_ROLE_*_HOST_LIST of " + roles),
            _row("", "PAI_CURRENT_CONTAINER_*, PAI_CONTAINER_* of the task itself, PAI_WORK_DIR, PAI_LOG_DIR"),
            _row("", "KEDGE_OUTPUT_DIR for results, which are kept; KEDGE_JOB_DIR, shared by all tasks and attempts"),
        )
    )


def request_text(request: EngineRequest) -> str:
    """An engine's request for a task: its specification, and the equivalent command."""
    title = bold(request.title or f"container of {request.task}")
    if not request.value or request.command.startswith("---\n"):  # the value, as the cluster's own programs read it
        return "\n".join(["", title, "", request.command.rstrip()])
    lines = yaml.safe_dump(request.value, sort_keys=False, default_flow_style=None, width=120).rstrip().split("\n")
    command = ["", request.command] if request.command else []
    return "\n".join(["", title, *(f"  {line}" for line in lines), *command])


def _hold(seconds: float) -> str:
    return f"the first task that fails is held for {duration_text(seconds)}, or until kedge release"


def bold(text: str) -> str:
    return styled(text, bold=True)


def _steps(steps: Iterable[Step]) -> Iterable[str]:
    for step in steps:
        for callback in step.callbacks:
            shown = callback.script or action_text(callback.action)
            service = f", service {callback.service}" if callback.service else ""
            yield from _block(callback.event, shown, f"{step.name}{service} ({_settings(step)})")
        yield from _lines("sets", [f"{name}={value}" for name, value in sorted(step.environment.items())])


def _settings(step: Step) -> str:
    retries = f", {step.retry.max} more tries" if step.retry.max else ""
    limit = f", {seconds(step.timeout_sec)} for each try" if step.timeout_sec is not None else ""
    return f"on failure: {step.policy}{retries}{limit}"


def _block(name: str, text: Text, title: str = "") -> list[str]:
    return _lines(name, [*([title] if title else []), *show_text(text).rstrip("\n").split("\n")])


def _lines(name: str, lines: list[str]) -> list[str]:
    return [_row(name if n == 0 else "", line) for n, line in enumerate(lines)]


def _row(name: str, value: str) -> str:
    return f"  {styled(f'{name:<13}', dim=True)} {value}"
