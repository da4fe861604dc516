"""The supervisor beside the user's command. Standard library and google-re2 only.

__main__      starts it from a folder
packed_start  starts it from one file
launch        the supervisor's first steps
main          the command line of the supervisor
warm_parent   forks supervisors for the local engine
attempt       one attempt: hooks, command, report
session       the parts of an attempt, connected
control       requests from the agent of a task
spec_wait     waits for the TaskSpec
time_limits   when the attempt is stopped
join_input    a joined program's input and signals, as messages
join          runs a program beside a task, for `kedge exec`
hold          keeps a failed task alive
execute       runs programs
outcome       how an attempt ended
events        events.jsonl and the report
status        events for the controller
files         unbuffered file access
bugs          unexpected exceptions
process/      processes: start, supervise, stop
logs/         the task's output
setup/        what is prepared before user code
hooks/        scripts and actions around the command
actions/      downloads and clones
agent/        the agent beside the supervisor, on clusters
ssh/          ssh between tasks, by asyncssh
postmortem/   why an attempt failed
"""
