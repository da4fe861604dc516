"""From a plan to the container of a task, pure.

render          the container of a task, from its plan and placement
container_spec  one container as a value
command_line    a container as a `docker run` line
"""
