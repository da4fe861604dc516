"""What is prepared before any user code runs.

prepare       the order of it
environment   the variables of the OpenPAI runtime
kept_environment  those of the task's programs, for others that join it
peers         addresses of the job's tasks
folders       folders of an attempt
code_copy     its own copy of the code
scripts       scripts of a task
ssh_commands  the commands ssh and scp, and variables for MPI
parameters    parameters of an action, with secrets
"""
