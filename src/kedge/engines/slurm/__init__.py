"""Runs a job on a Slurm cluster: submits it, asks Slurm about it, and controls it inside its allocation.

engine           the engine: check, plan, run, submit, stop
options          the options of this engine
script/          makes the batch script and the srun lines of a plan, pure
checks           whether the cluster can run a plan
cluster_facts    the partitions and nodes of a cluster
associations     which accounts and qualities of service the user may use
notes            notes for the submitter
submission       submits a run: bundle, batch script, sbatch
refusals         advice for errors of sbatch
liveness         the state of a run as Slurm reports it; records an end that the controller did not
job_table        a user's jobs, as squeue lists them
job_states       what the states of a job mean
job_ends         how a job ended that did not record that
pending_reasons  explains why a job is pending
requests         stop and other requests: over the link, otherwise with scancel
exec             a program beside a task
exec_signals     passes signals on to such a program
commands         runs Slurm's commands
clock            times as Slurm writes them
in_allocation/   what the controller does inside the allocation
"""
