"""The run folder: events, reports, locks, logs. One writer per file.

folder           the layout of run folders; finding runs
run_options      what the submitter gave besides the job file
run_limits       the time limits of a run
events           event logs
job_events       the names of events, and how runs use them
status           the status of a run, from its events
cluster_files    the files of a run in a cluster
copies           runs whose folder is in a cluster: what is here is fetched
controller_lock  shows that the controller is alive
file_locks       locks where the file system may have none
liveness         whether a run has a controller, wherever it is
report           report.json and report.md
job_report       the report of a job as values
task_reports     reports of task attempts
explanation      wording of a failure
logs             reads the bytes of logs while they grow
log_times        reads the times of a log's lines
timed_log        the lines of a log with their times
log_places       finds parts of a log: the last lines, the lines since a time
merged_logs      merges logs by time
task_logs        the logs of a run's tasks, or parts of them, merged
follow           follows a run that is active
recent           the recent part of an active run
outputs          lists what tasks have written for the user
output_lists     what is known of outputs that are in a cluster
kept_outputs     deletes everything of a run except its outputs
storage_links    links to the folders of storages
inner_links      links within a folder of a task
transfer         copies files between folders of tasks and of the user
code_snapshot    copies the user's code
tree_copy        copies a folder that tasks have written
ignore_files     .gitignore and .kedgeignore
data_cache       downloaded data, by SHA-256
disk_reserve     space that is kept for the end of a job
atomic_files     writes files whole or not at all
"""
