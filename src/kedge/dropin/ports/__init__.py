"""The ports of a task: their numbers, and whether they are free.

port_checker  init program: whether the task's ports are free
port_holders  which process holds a port
port_numbers  the numbers of a task's ports
"""
