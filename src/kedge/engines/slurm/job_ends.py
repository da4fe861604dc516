"""How a Slurm job ended if its controller did not record that."""

from __future__ import annotations

import pwd
from typing import NamedTuple

from kedge.contract import STOPPED_BY_TIME_LIMIT, STOPPED_BY_USER
from kedge.engines.slurm import commands, job_states, pending_reasons
from kedge.engines.slurm.commands import SlurmError, SlurmSite
from kedge.late_patterns import late_pattern
from kedge.runs.liveness import JobPhase
from kedge.states import State

_NODE_LOST, _PREEMPTED, _OUT_OF_MEMORY = -1001, -1003, -1200  # OpenPAI's codes
_FACT = late_pattern(r"(?:^| )(JobState|Reason|ExitCode|BatchHost|NodeList|JobName|TimeLimit)=(\S*)")
_BY = late_pattern(r"CANCELLED by ([0-9]+)")
BATCH_LOG = "cluster/batch.log"
_LOG = f"see {BATCH_LOG} in its folder"
_NO_OUTPUT = "0:53"  # what slurmd reports of a batch script whose output file it cannot open
_NOT_LAUNCHED = ("JobLaunchFailure", "BadConstraints", "InvalidAccount", "InvalidQOS", "SystemFailure")
_MEMORY = "ask for more memory (memoryMB)"
_LATER = "ask for less time with --slurm time=TIME, or for a later deadline"
_NODE_FAIL = "NODE_FAIL"
_UNKNOWN = "Invalid job id"  # what slurmctld says of a job that it does not know
_ELSEWHERE = "REVOKED"  # squeue lists it for as long as another cluster has the job
_ADVICE = "with --slurm requeue=true, Slurm gives such a job another allocation where the site allows that"


class SlurmJobEnd(NamedTuple):
    """What Slurm says about the end of a job: the final state in its own term; empty if it does not know the job any
    more. `by` is the user who cancelled it, `exit_code` that of the batch script, as Slurm writes it (code:signal).
    `node` is that of the batch script, or all nodes of a heterogeneous job of which one has failed."""

    state: str = ""
    by: str = ""
    node: str = ""
    exit_code: str = ""
    time_limit: str = ""
    reason: str = ""


class RecordedEnd(NamedTuple):
    """How the run ended: the facts of the event job-completed."""

    state: State
    code: int | None
    text: str


def asked(site: SlurmSite, job: str) -> SlurmJobEnd | None:
    """What Slurm's accounting reports. Without accounting, what slurmctld reports, which forgets a job after some
    minutes. None if the job has not ended. SlurmSilent: neither answers."""
    state = ""
    for question in (_of_accounting, _of_controller):
        try:
            found = question(site, job)
        except commands.SlurmSilent:
            raise
        except SlurmError as error:
            # Accounting may have missed an end, but slurmctld knows every job that has not ended.
            if _UNKNOWN in str(error):
                return SlurmJobEnd()
            continue  # there is no accounting
        if job_states.phase(found.state) == JobPhase.GONE or found.state == _ELSEWHERE:
            return found
        state = state or found.state
    return None if state else SlurmJobEnd()


def _of_accounting(site: SlurmSite, job: str) -> SlurmJobEnd:
    fields = "State,ExitCode,NodeList,Timelimit"
    argv = ("sacct", "--allocations", "--noheader", "--parsable2", f"--jobs={job}", f"--format={fields}")
    text = commands.run(site, *argv)
    lines = [line.split("|") for line in text.splitlines() if line.count("|") == fields.count(",")]
    if not lines:
        return SlurmJobEnd()
    state, code, _, limit = lines[0]  # of the first component, which has the batch script
    by = _BY.match(state)
    node = _node(_word(state), [_known(line[2]) for line in lines])
    return SlurmJobEnd(_word(state), _user(by[1]) if by else "", node, code, limit)


def _of_controller(site: SlurmSite, job: str) -> SlurmJobEnd:
    text = commands.run(site, "scontrol", "--oneliner", "show", "job", job)
    components: list[dict[str, str]] = [dict(_FACT.findall(line)) for line in text.strip().split("\n")]
    facts, state = components[0], _word(components[0].get("JobState", ""))
    nodes = [_known(each.get("BatchHost", "")) or _known(each.get("NodeList", "")) for each in components]
    known = (facts.get("ExitCode", ""), facts.get("TimeLimit", ""), _known(facts.get("Reason", "")))
    return SlurmJobEnd(state, "", _node(state, nodes), *known)


def _node(state: str, nodes: list[str]) -> str:
    """The node to name for a job whose components had these."""
    return ",".join(filter(None, nodes)) if state == _NODE_FAIL else nodes[0]


def _word(state: str) -> str:
    """`CANCELLED by 0` and `CANCELLED+` are CANCELLED."""
    return state.split(" ", 1)[0].rstrip("+")


def _known(value: str) -> str:
    return "" if value in ("(null)", "None", "None assigned", "n/a", "N/A", "Unknown") else value


def _user(number: str) -> str:
    try:
        return pwd.getpwuid(int(number)).pw_name
    except (KeyError, OverflowError):
        return f"the user {number}"


def recorded(end: SlurmJobEnd, job: str, stopped_by: str = "", lost_node: str = "") -> RecordedEnd:
    """How the run ended, from the end of its Slurm job. `stopped_by`: who had asked kedge to stop it. `lost_node`: why
    the job cancelled itself."""
    where = f" (Slurm job {job}{f', node {end.node}' if end.node else ''})"
    if stopped_by and end.state in ("", "CANCELLED"):
        return RecordedEnd(State.STOPPED, STOPPED_BY_USER, f"stopped by {stopped_by}")
    if lost_node and end.state in ("", "CANCELLED"):
        return RecordedEnd(State.FAILED, _NODE_LOST, f"{lost_node}{where}; {_ADVICE}")
    match end.state:
        case "CANCELLED":
            by = f" by {end.by}" if end.by else ", with scancel or by Slurm"
            return RecordedEnd(State.STOPPED, STOPPED_BY_USER, f"cancelled outside of kedge{by}{where}")
        case "TIMEOUT":
            limit = f"the time limit of the allocation{f' ({end.time_limit})' if end.time_limit else ''} has passed"
            more = "; ask for more time with --slurm time=TIME"
            return RecordedEnd(State.FAILED, STOPPED_BY_TIME_LIMIT, f"{limit}{where}{more}")
        case "DEADLINE":
            text = f"Slurm ended the job because it could not end before its deadline (--deadline){where}; {_LATER}"
            return RecordedEnd(State.FAILED, STOPPED_BY_TIME_LIMIT, text)
        case "NODE_FAIL":
            what = "a node of the job" if "," in end.node else "the node of the job's controller"
            text = f"{what} has failed{where}; {_ADVICE}"
            return RecordedEnd(State.FAILED, _NODE_LOST, text)
        case "BOOT_FAIL" | "LAUNCH_FAILED" | "RECONFIG_FAIL":
            return RecordedEnd(State.FAILED, _NODE_LOST, f"its nodes could not be started{where}; {_ADVICE}")
        case "OUT_OF_MEMORY":
            text = f"Slurm ended the job because it ran out of memory{where}; {_MEMORY}"
            return RecordedEnd(State.FAILED, _OUT_OF_MEMORY, text)
        case "PREEMPTED":
            return RecordedEnd(State.FAILED, _PREEMPTED, f"preempted by Slurm for another job{where}; {_ADVICE}")
        case "REVOKED":
            text = f"another cluster of the federation took it, and it did not record its end{where}; {_LOG}"
            return RecordedEnd(State.FAILED, None, text)
        case "":
            text = f"Slurm no longer knows the job, which did not record its end{where}; {_LOG}"
            return RecordedEnd(State.FAILED, None, text)
    if end.exit_code == _NO_OUTPUT:
        return RecordedEnd(State.FAILED, None, f"its node could not write into the run folder{where}")
    if end.reason in _NOT_LAUNCHED:
        return RecordedEnd(State.FAILED, None, f"{pending_reasons.text(end.reason)}{where}")
    return RecordedEnd(
        State.FAILED, None, f"its controller {_ended(end.exit_code)} without recording its end{where}; {_LOG}"
    )


def _ended(code: str) -> str:
    """How the batch script ended, from Slurm's `code:signal`."""
    number, _, signal = code.partition(":")
    if signal not in ("", "0"):
        return f"was ended by signal {signal}"
    return f"ended with exit code {number}" if number not in ("", "0") else "ended"
