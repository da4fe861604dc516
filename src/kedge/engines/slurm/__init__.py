"""Runs a job inside an allocation of a Slurm cluster.

engine    the engine: check, plan, run, submit, stop
options   the options of this engine
liveness  what Slurm says of a run
render    from a plan to the sbatch script and the srun lines, pure
"""
