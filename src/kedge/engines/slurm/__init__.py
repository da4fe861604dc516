"""Runs a job inside an allocation of a Slurm cluster.

batch_body  the shell part of the batch script
containers  how a step runs its agents in containers
resources   what roles ask Slurm for
times       time limits of allocations, and when Slurm warns
engine    the engine: check, plan, run, submit, stop
options   the options of this engine
liveness  what Slurm says of a run
render    from a plan to the sbatch script and the srun lines, pure
"""
