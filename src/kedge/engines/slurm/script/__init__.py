"""The batch script of a plan, and the srun lines of its steps.

render      the script and the srun lines, pure
batch_body  the shell part of the script
containers  how a step runs its agents in containers
resources   what roles ask Slurm for
times       time limits of allocations, and when Slurm warns
"""
