"""Runs a job on a Slurm cluster: submits it, asks Slurm about it, and controls it inside its allocation.

engine           the engine: check, plan, run, submit, stop
options          the options of this engine
script/          from a plan to the batch script and the srun lines, pure
checks           whether the cluster can run a plan
cluster_facts    what a cluster has
associations     which accounts the user may use
notes            what the submitter should know
submission       hands a run over: bundle, batch script, sbatch
refusals         why sbatch refuses a job, and what to change
liveness         what Slurm says of a run, and the end that its job did not record
job_table        this user's jobs, as squeue lists them
job_states       what the states of a job mean
job_ends         why a job has ended that did not record it
pending_reasons  why a job is pending, in words
requests         what the owner asks of a run: over the link, else by Slurm
exec             a program beside a task
exec_signals     passes signals on to such a program
commands         runs Slurm's commands
clock            times as Slurm writes them
in_allocation/   the controller's side: inside the allocation
"""
