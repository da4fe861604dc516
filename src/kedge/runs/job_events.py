"""The events of the controller's log, and the facts of each.

Every event has a `time`; tasks are identified by `role` and `index`, and their attempts within a job attempt by
`task_attempt`.
"""

from __future__ import annotations

from enum import StrEnum


class JobEvent(StrEnum):
    """What the controller of a run records. The facts of an event are named beside it."""

    JOB_SUBMITTED = "job-submitted"  # roles: {"worker": 2, ...}
    ATTEMPT_STARTED = "attempt-started"  # attempt
    TASK_LAUNCHED = "task-launched"  # role, index, task_attempt
    # role, index, task_attempt, state, succeeded, code, user_exit_code, reason; report if the task's folder has no such
    # report; if tasks are retried one by one: why, decided_by
    TASK_COMPLETED = "task-completed"
    # role, index, delay_sec, why, decided_by; code, user_exit_code, reason, report of the failed attempt; retries and
    # history: what the next decision needs
    TASK_RETRYING = "task-retrying"
    HOOK_RETRYING = "hook-retrying"  # role, index, step, message, next_try, tries, delay_sec
    ATTEMPT_COMPLETED = "attempt-completed"  # attempt, verdict, text, code, root: {task, cause, behavior} or null
    JOB_RETRYING = "job-retrying"  # delay_sec, why, decided_by, retries, history
    TASK_STOPPING = "task-stopping"  # role, index, by: the task's own time limit has passed, so it is stopped
    # by: the key of the limit, text; role, index, or of the limit of the run: message, the verdict in words
    TIME_LIMIT_REACHED = "time-limit-reached"
    # by: the key of a limit, or notice; text; role, index of the first task with it, or of the only one
    STOP_ANNOUNCED = "stop-announced"
    # role, index, run, code, message, until: it has failed, and stays alive for its user until then
    TASK_HELD = "task-held"
    TASK_RELEASED = "task-released"  # role, index: the user has ended the hold
    SERVICE_STARTED = "service-started"  # role, index, name, address or null; again when the address is known
    SERVICE_ENDED = "service-ended"  # role, index, name, code, task_over: whether it ended with its task
    TASK_PLACED = "task-placed"  # role, index, node, address: where it runs in a cluster
    # attempt, own_places: in a cluster no task of the attempt runs before all have come together. own_places: a further
    # attempt of a task alone has a place of its own, for which it waits
    BARRIER_BEGUN = "barrier-begun"
    # attempt; peers: what all tasks know of each other from now on, recorded where no folder is shared
    BARRIER_PASSED = "barrier-passed"
    # role, index, text: why a task that was launched does not run yet; null: it does, or will in a moment
    TASK_WAITING = "task-waiting"
    TIME_STOOD_STILL = "time-stood-still"  # waited_sec: a queue held all tasks so long, which counts for no time limit
    TASK_UNREACHABLE = "task-unreachable"  # role, index, text: its agent is silent; it has not ended
    TASK_REACHABLE = "task-reachable"  # role, index: its agent has sent something again
    # state, job: its number there, why: the scheduler's term, text: the same in words, until: its expected start, or
    # empty, before: the last state that was known. Only viewers see it: it is not recorded
    SCHEDULER_SAID = "scheduler-said"
    STOP_REQUESTED = "stop-requested"  # by, kill, interrupted: by the user's own Ctrl-C
    ALLOCATION_REQUESTED = "allocation-requested"  # text: the controller asks its cluster for another allocation
    # text: why, and when; allocation: the number of its allocation, from 0; adopts: it is that of the tasks, which go
    # on; cause: why there is another, if known; waited_sec: how long nothing of the job had a place
    CONTROLLER_RESTARTED = "controller-restarted"
    PROCESSES_LEFT = "processes-left"  # text: which processes cannot be ended, and why
    JOB_COMPLETED = "job-completed"  # state, code, text, exit_code: that of kedge run; judged, lines: for the report
    # text: a slow step of the engine, or a fault that may pass, shown while the job runs; with in_summary true, what a
    # user should know about the run once it has ended
    NOTE = "note"
