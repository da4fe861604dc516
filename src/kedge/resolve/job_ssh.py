"""What a job's ssh becomes when the steps of a role are known: one server for a task, and no ssh between tasks that do
not wait for each other."""

from __future__ import annotations

from collections.abc import Sequence

from kedge.contract import SSH_BARRIER, SSH_SERVER, Action, Callback, Step

NO_GANG = "the job has no gang allocation (extras.gangAllocation: false), so there is no ssh between its tasks (jobssh)"
_KEY = "key"


def adapted(steps: Sequence[Step], gang: bool) -> tuple[tuple[Step, ...], tuple[str, ...]]:
    """The steps with at most one server, the first one, which serves everybody that any of them names; and notes."""
    servers = [c.action for step in steps for c in step.callbacks if c.action and c.action.kind == SSH_SERVER]
    if not servers or (len(servers) == 1 and gang):
        return tuple(steps), ()
    was_asked = any(server.parameters["jobssh"] for server in servers)
    server = _joined(servers) if gang else _without_job(_joined(servers))
    kept = [step._replace(callbacks=_with_server(step, servers[0], server, gang)) for step in steps]
    notes = (NO_GANG,) if was_asked and not gang else ()
    return tuple(step for step in kept if step.callbacks or step.environment), notes


def _joined(servers: Sequence[Action]) -> Action:
    merged = dict(servers[0].parameters)
    for other in servers[1:]:
        more = other.parameters
        lists = {name: [*merged[name], *(one for one in more[name] if one not in merged[name])]
                 for name in ("keys", "keyFiles")}  # fmt: skip
        either = {name: merged[name] or more[name] for name in ("jobssh", "imageSshd")}
        merged |= {**lists, **either, **({_KEY: more[_KEY]} if _KEY in more else {})}
    return Action(SSH_SERVER, merged)


def _without_job(server: Action) -> Action:
    kept = {name: value for name, value in server.parameters.items() if name != _KEY}
    return Action(SSH_SERVER, {**kept, "jobssh": False})


def _with_server(step: Step, first: Action, server: Action, gang: bool) -> tuple[Callback, ...]:
    """The step's callbacks: the server in the place of the first one, no other server, no barrier without a gang."""
    found = []
    for callback in step.callbacks:
        action = callback.action
        if action is first:
            found.append(callback._replace(action=server))
        elif action is None or not (action.kind == SSH_SERVER or (action.kind == SSH_BARRIER and not gang)):
            found.append(callback)
    return tuple(found)
