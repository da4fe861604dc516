"""The agent beside a task's supervisor on a cluster. It speaks to the controller over the link.

connection  the agent's end of the link
dialing     finds the controller
dial        one try to connect
unacked     what the controller may not have yet
"""
