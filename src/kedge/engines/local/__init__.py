"""Runs every task as processes on this machine.

engine          the engine: what it checks and notes
job             runs a whole job, and stops it
options         the options of this engine
backend         starts and follows supervisors
warm_parent     a process that forks supervisors faster than an interpreter starts
placement       ports, GPUs and folders of each task
cgroups         a control group of a run
process_record  which processes belong to a run
exec            runs a program beside a task
leftovers       ends what a killed controller has left
"""
