"""The loop of one job, for engines that have none: attempts, retries, stops.

job                attempts until the policies are satisfied
attempt            one attempt: all tasks from start to end
states             the states of a task, and their moves
supervisor_events  what supervisors report while they run
reports            reports of task attempts, or a substitute
judge              why an attempt failed, and whether to try again
failures           what the judge needs once something has failed
retries            counts tries and their delays
holds              the hold of a failed task
time_limits        when a run and its tasks are stopped
stop_requests      signals that ask for a stop
job_log            the job's event log, even on a full disk
job_lifetime       what surrounds a job: stop requests, log, end
"""
