"""Runs a job in a namespace of a Kubernetes cluster: creates its objects, and reaches it through the API server alone.

engine           the engine: check, plan, submit, stop
options          the options of this engine
checks           whether a plan can run in a namespace
permissions      what submitters and drivers must be allowed to do
setup            what lets jobs run in a namespace, for its administrator
queues           the queue that a job waits in
notes            what the submitter should know
job_folder_use   whether a job uses $KEDGE_JOB_DIR
submission       hands a run over: all its objects, the driver's Job last
old_job_folder   whether a run can begin with a copy of another one's job folder
code_upload      sends large code to the driver
archives         what travels of a run folder
refusals         why the API server refuses an object, and what to change
plan_manifests   the objects of a job, for kedge plan
manifest_text    objects as YAML
pod_patch_file   the site's patch for pods
recorded_events  how much of a run's events is in its decision log
api              the calls of the API that kedge needs, for dicts
transport/       connections to the API server: where it is, who asks, HTTP, WebSocket
access/          what the machine of a run's user does with a run
objects/         from a plan to the objects that are created, pure
pods/            what pods say about themselves: how they ended, or why they have not begun, pure
in_driver/       what runs a job inside its driver pod
framework/       the same with Framework objects, for FrameworkController
"""
