"""Requests of the owner of a run from a login node: over the link to its controller, otherwise through Slurm."""

from __future__ import annotations

import os
import pwd
import signal
from contextlib import suppress
from typing import NamedTuple

from kedge.engines.cluster import owner_client
from kedge.engines.controller.stop_requests import KILL, NOTICE
from kedge.engines.slurm import commands, job_states, job_table, liveness
from kedge.engines.slurm.commands import SlurmError, SlurmSite
from kedge.engines.slurm.job_states import SUSPENDED
from kedge.engines.slurm.job_table import ListedJob
from kedge.errors import CannotRun
from kedge.link.keys import LinkKeys
from kedge.runs import events
from kedge.runs.controller_lock import RELEASE
from kedge.runs.events import EventLog
from kedge.runs.folder import Run
from kedge.runs.job_events import JobEvent
from kedge.runs.liveness import JobPhase, is_controlled

_LINK_SEC = 5.0  # for each address, and for the answer
_PATIENCE_SEC = 2.0  # for another command that writes the log of a pending job


class _Request(NamedTuple):
    """A request: its name on the link, the signal that the batch script passes on, and who asks, in words."""

    kind: str
    signal: str
    by: str
    kill: bool = False


_REQUESTS = {
    signal.SIGINT: _Request("interrupt", "INT", "Ctrl-C"),
    signal.SIGTERM: _Request("stop", "TERM", "a stop request"),
    signal.SIGHUP: _Request("hangup", "TERM", "the closed terminal"),
    KILL: _Request("kill", "USR1", "a stop request", True),
    NOTICE: _Request("notice", "USR2", ""),
    RELEASE: _Request("release", "", ""),
}


def stop(run: Run, kill: bool) -> tuple[str, ...]:
    """Stop a run. Returns notes for the user. CannotRun: neither the controller nor Slurm can be reached."""
    return _ask(run, _REQUESTS[KILL if kill else signal.SIGTERM])


def forward(run: Run, number: int) -> None:
    """Pass on what a signal to a controller would ask for. CannotRun as from `stop`."""
    _ask(run, _REQUESTS[signal.Signals(number)])


def forget(run: Run) -> None:
    """Nothing of an ended run is left outside its folder."""
    run.cluster.remove_secrets()


def _ask(run: Run, request: _Request) -> tuple[str, ...]:
    if not is_controlled(run):
        liveness.complete(run)
        return ()
    try:
        _ask_controller(run, request.kind)
    except CannotRun as unreached:
        if isinstance(unreached, owner_client.NoAnswer) and not request.kill:
            raise  # the controller may have taken it: a second request to stop is one to kill
        try:
            return _ask_slurm(run, request, unreached)
        except SlurmError as error:
            raise CannotRun(
                f"the request has not reached {run.id}, which continues: {unreached}; {error}; try again"
            ) from None
    return ()


def _ask_controller(run: Run, kind: str) -> None:
    """Ask over the link. CannotRun."""
    files = run.cluster
    place = files.object(files.address)
    addresses, port = place.get("addresses"), place.get("port")
    if not isinstance(addresses, list) or not isinstance(port, int):
        raise CannotRun("the controller of this run has not recorded its address yet")
    try:
        keys = LinkKeys.from_json(files.read(files.link))
    except (OSError, ValueError) as error:
        raise CannotRun(f"the keys for the controller of this run cannot be read: {error}") from None
    owner_client.ask(keys, [str(each) for each in addresses], port, kind, _other_user(run), _LINK_SEC)


def _other_user(run: Run) -> str:
    """The user of this process if the run is another user's; otherwise empty."""
    own = os.getuid()
    return "" if run.path.stat().st_uid == own else user_name(own)


def user_name(user: int) -> str:
    """The name of the user of this number, for people."""
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"the user {user}"


def _ask_slurm(run: Run, request: _Request, unreached: CannotRun) -> tuple[str, ...]:
    """Send the request with scancel, because the link does not work, or not yet."""
    job = run.cluster.object(run.cluster.job)
    site = SlurmSite.of(job)
    job_table.forget()
    found = job_table.list_run(site, run, job.get("job"))
    if found is None or found.has_ended:
        return _not_listed(run, unreached)
    if found.is_pending and request.by:
        _cancel_pending(run, site, found, request)
        found = job_table.list_run(site, run, found.id)
        if found is None or found.has_ended:
            return _not_listed(run, unreached)
    if found.is_pending:
        return ()  # there is nothing to warn or to release
    if not request.signal:
        raise CannotRun(f"{run.id}: {unreached}")
    if found.state == SUSPENDED:  # scancel would wait, too
        raise CannotRun(
            f"the request cannot reach {run.id} now: {job_states.words(SUSPENDED, found.id)}. Try again then, or end "
            f"it at once with scancel {found.id}"
        )
    if request.by and not run.cluster.heartbeat.exists():
        _record(run, request)  # a batch script that is just starting may not be able to pass it on
    commands.run(site, "scancel", "--batch", f"--signal={request.signal}", found.id)
    return (f"{unreached}; the request was sent by scancel instead", *_last_resort(request, found))


def _not_listed(run: Run, unreached: CannotRun) -> tuple[str, ...]:
    """squeue does not list the job. Record its end if it is gone. CannotRun: Slurm does not say that it is gone."""
    said = liveness.ask_scheduler(run)
    if said.state == JobPhase.GONE:
        return ()
    if said.state == JobPhase.PENDING:
        raise CannotRun(f"{run.id} has not got the request: {said.text}; try again in a moment")
    raise CannotRun(
        f"the request has not reached {run.id}, which continues: {unreached}; "
        f"{said.text or 'squeue does not list its job'}; try again as the owner of the job"
    )


def _last_resort(request: _Request, found: ListedJob) -> tuple[str, ...]:
    return (f"if that does not help, scancel {found.id} ends everything at once",) if request.kill else ()


def _cancel_pending(run: Run, site: SlurmSite, found: ListedJob, request: _Request) -> None:
    """Cancel a job that has not started, and record first who asked for it. If it starts now, it is not cancelled."""
    _record(run, request)
    commands.run(site, "scancel", "--state=PENDING", found.id)
    job_table.forget()


def _record(run: Run, request: _Request) -> None:
    """Record who asked for a stop, unless somebody has already, or a controller has taken the log."""
    if any(event.get("event") == JobEvent.STOP_REQUESTED for event in events.read(run.events)):
        return
    with suppress(TimeoutError), EventLog(run.events, _PATIENCE_SEC) as log:
        log.append(JobEvent.STOP_REQUESTED, by=request.by, kill=request.kill)
