"""Runs a job inside its driver pod: what the controller does there.

program         the life of a driver pod
seed            the run folder that the submitter gave it
driver_pod      what a driver knows of itself and its run
start           the first steps of the job
job             the whole job
driver_stops    requests to stop the job; SIGTERM is not one of them
requests        what the owner asks, by the run's anchor
backend         follows the tasks, and does nothing before it is recorded
lease           which of several drivers decides
leaving         how a driver leaves a run that it may not go on with
ended_secrets   what is removed when the job has ended
decision_log    the events of the run, where they outlive the driver's node
log_pieces      the ConfigMaps of the decision log
log_facts       what else a second driver must know
task_pods       the tasks as pods: one for each task attempt
attempt_pod     what is known of the pod of one task attempt
pod_plans       the objects of tasks
code_archive    waits for the job's code, if that is large
code_server     lets agents fetch the code over the link
outputs_volume  a run's folders on the site's volume
pod_calls       creates and deletes pods
pod_queue       what a queue does with the pods
pod_watch       watches the pods
pod_checks      whether pods are over, or why they do not run
"""
