"""Runs a job inside an allocation of a Slurm cluster.

engine           the engine: check, plan, run, submit, stop
options          the options of this engine
render           from a plan to the sbatch script and the srun lines, pure
checks           whether the cluster can run a plan
cluster_facts    what a cluster has
notes            what the submitter should know
batch_body       the shell part of the batch script
containers       how a step runs its agents in containers
resources        what roles ask Slurm for
times            time limits of allocations, and when Slurm warns
liveness         what Slurm says of a run, and the end that its job did not record
commands         runs Slurm's commands
submission       hands a run over: bundle, batch script, sbatch
refusals         why sbatch refuses a job, and what to change
job_table        this user's jobs, as squeue lists them
job_ends         why a job has ended that did not record it
pending_reasons  why a job is pending, in words
requests         what the owner asks of a run: over the link, else by Slurm
exec             a program beside a task
job              inside the allocation: the whole job
allocation       the facts of the allocation
backend          follows the tasks there, and finds out why the allocation ends
ends             why it ends, asked while that happens
node_question    which nodes are down
steps            its steps: one srun for each role and job attempt
step_process     one such srun
step_record      those that a restarted controller finds again
step_log         what srun says about tasks
step_ends        why nothing of a task runs any more
inside_commands  commands of Slurm that the controller does not wait for
"""
