"""The life of a job: load, resolve, plan, submit, run, follow, stop. The command line uses only this.

preparation      from a job file to a job that is ready to be submitted
site_limits      the limits of the site
site_rules       what the settings of the site mean for a job
storages         the storages that the submitter may use, and where they are
storage_folders  whether the folders of storages can be used
storage_look     program: looks at these folders
engine_choice    the engine of a job
example          the spec that one of its tasks would receive
lock             writes the lock file
pins             the current pins of images
rules            a job's own rules for causes of failures
record           what a run was made of
rerun            makes a job from the record of a run
stored_job       a run's job file as a text that runs elsewhere
export           writes a run's job, and all it refers to, into a folder
ssh              connects to a task
ssh_keys         keys of a job's own for ssh
link_keys        keys of a run's link to its controller on a cluster
submission       gives a job a run folder and a controller
user             who submits
task_names       the tasks of a run that a user names
exec             runs a program beside a task
files            copies files between this machine and a run
cluster_runs     finds runs that other machines have submitted
runs             this user's runs: finds, awaits, stops and removes them
"""
