"""Runs a job inside its allocation: what the controller does there.

start            the first steps
job              the whole job
allocation       the facts of the allocation
backend          follows the tasks, and detects the end of the allocation
ends             asks Slurm why the allocation ends
node_question    asks Slurm about the nodes of unreachable tasks
nodes_left       whether the remaining nodes can hold another attempt
steps            the tasks as steps: one srun for each role and job attempt
step_commands    the command lines of steps, and what their agents read
step_process     one srun
step_record      a file from which a restarted controller knows its sruns
step_log         reads what srun prints about tasks
step_ends        how a task ended, from what its srun printed
inside_commands  commands of Slurm that the controller does not wait for
"""
