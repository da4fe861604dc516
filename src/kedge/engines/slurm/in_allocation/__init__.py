"""Runs a job inside its allocation: what the controller does there.

start            the first steps
job              the whole job
allocation       the facts of the allocation
backend          follows the tasks, and finds out why the allocation ends
ends             why the allocation ends, asked while it does
node_question    what Slurm says of silent nodes
nodes_left       whether the nodes that are left can hold another attempt
steps            the tasks as steps: one srun for each role and job attempt
step_commands    the command lines of steps, and what their agents read
step_process     one srun
step_record      the sruns that a restarted controller finds again
step_log         what srun says about tasks
step_ends        why nothing of a task runs any more
inside_commands  commands of Slurm that the controller does not wait for
"""
