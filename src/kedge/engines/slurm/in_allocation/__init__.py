"""Runs a job inside its allocation: what the controller does there.

start            the first steps
job              the whole job
allocation       the facts of the allocation
backend          follows the tasks, and finds out why the allocation ends
ends             why it ends, asked while that happens
node_question    what Slurm says of nodes
nodes_left       whether they hold another attempt when some are lost
steps            its steps: one srun for each role and job attempt
step_commands    their command lines, and what their agents read
step_process     one such srun
step_record      those that a restarted controller finds again
step_log         what srun says about tasks
step_ends        why nothing of a task runs any more
inside_commands  commands of Slurm that the controller does not wait for
"""
