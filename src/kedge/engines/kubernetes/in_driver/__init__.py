"""Runs a job inside its driver pod: what the controller does there.

program          the life of such a pod
seed             the run folder that the submitter gave it
driver_pod       what it knows of itself and its run
start            the first steps of the job
job              the whole job
driver_stops     requests to stop it, of which SIGTERM is none
requests         what the owner asks, at the anchor
backend          follows the tasks, and does nothing before it is recorded
lease            which of several drivers decides
leaving          how one leaves that may not
ended_secrets    what is removed when the job has ended
decision_log     the events of the run, where they outlive the driver's node
log_pieces       the ConfigMaps in which they are
log_facts        what else a second driver must know
task_pods        the tasks as pods: one for each task attempt
attempt_pod      what is known of one
pod_plans        the objects of tasks
code_archive     waits for the job's code, if that is large
code_server      the link, through which tasks can fetch it
outputs_volume   their folders on the site's volume
pod_calls        creates and deletes them
pod_queue        what a queue does with them
pod_watch        watches them
pod_words        what they say about themselves
"""
