"""The run folder: events, reports, locks, logs. One writer per file.

folder           the layout of run folders; finding runs
run_options      what the submitter gave besides the job file
events           event logs
job_events       the names of events, and how runs use them
status           the status of a run, from its events
controller_lock  shows that the controller is alive
report           report.json and report.md
job_report       the report of a job as values
task_reports     reports of task attempts
explanation      wording of a failure
logs             reads logs while they grow
follow           follows a run that is active
recent           the recent part of such a run
code_snapshot    copies the user's code
job_dir_copy     copies the job folder of an earlier run
ignore_files     .gitignore and .kedgeignore
data_cache       downloaded data, by SHA-256
disk_reserve     space that is kept for the end of a job
atomic_files     writes files whole or not at all
"""
