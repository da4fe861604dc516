"""The loop of one job, for engines that have none: attempts, retries, stops.

job                attempts until the policies are satisfied
attempt            one attempt: all tasks from start to end
attempt_record     what is known about an attempt
start_queue        which tasks are still to start, and when
progress           how far a job has come
resume             the progress that a killed controller's events show
allocation         the place of a job in a cluster, and the next one
states             the states of a task, and their moves
supervisor_events  what supervisors report while they run
task_facts         what the log says about the end of a task
reports            reports of task attempts, or a substitute
judge              why an attempt failed, and whether to try again
explanation        why an attempt has ended, in words
failures           what the judge needs once something has failed
retries            counts tries and their delays
holds              the hold of a failed task
time_limits        when a run and its tasks are stopped
stop_requests      signals that ask for a stop
job_log            the job's event log, even on a full disk
job_lifetime       what surrounds a job: stop requests, log, end
"""
