"""The `kedge` command.

main            finds the command; turns every error into a message and an exit code
times           times as users write and read them
options         arguments of commands on runs
job_options     FILE, and what the submitter adds to it
engine_options  the options of engines
streams         makes stdin, stdout and stderr safe to use
stop_requests   Ctrl-C, Ctrl-\\ and signals while a job is submitted and runs
viewer          shows a run until it ends or the user detaches
new_run         starts a run
attended_run    submits a job and shows it
log_files       reads logs to diagnose: plain, compressed or stdin
commands/       one file per command
view/           what commands print for people
"""
