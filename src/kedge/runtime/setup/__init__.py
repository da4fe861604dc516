"""What is prepared before any user code runs.

prepare           prepares everything, in order
environment       the variables of the OpenPAI runtime
kept_environment  the environment of a task's programs, for others that join it
peers             addresses of the job's tasks
folders           folders of an attempt
code_copy         an attempt's own copy of the code
scripts           scripts of a task
ssh_commands      the commands ssh and scp, and variables for MPI
parameters        parameters of an action, with secrets
"""
