"""Jobs as Framework objects, for sites that run FrameworkController. It decides everything; kedge submits, and records
what it has done.

Pure:
site          what a site says about the pods of its frameworks
render        from a plan to the Framework
pod_template  the pods of a role
addons        the secrets and the priority class beside a Framework
hived         what a job requests of HiveD
progress      what the status of a Framework means
event_fold    from the status to events of the run
job_end       how a Framework ended, as the last events
task_ends     from what is kept of a pod, and its log, to the report of a task
unsupported   what FrameworkController cannot do for a job

Where it runs:
site_options  the site, from the options of the engine
job_config    the text of the job that a Framework carries
job_objects   all objects of a job
manifests     the objects of a job for `kedge plan`
checks        whether a namespace can run Frameworks
submission    hands a run over: creates its objects
submitted     the Framework of a run
console_logs  what tasks print, by the API
pod_logs      the logs of all pods, from their beginning
folding       records in the run folder what has happened
following     brings it to this machine: once, or until the end of the run
liveness      what is known of a run now
requests      stop, and forget
importing     finds Frameworks that other machines have submitted
"""
