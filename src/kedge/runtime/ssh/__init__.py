"""ssh between the tasks of a job: programs of the bundle's layer ssh. Only this room uses asyncio.

command_line    what `ssh` is asked to do
configuration   OpenSSH's configuration for one destination
messages        OpenSSH's messages for failures
connection      connecting
session         one remote command, with the client's own input and output
streams         blocking descriptors beside asyncio
terminal        the client's terminal
forwards        port forwarding
client          the program `ssh`
copy_line       what `scp` is asked to do
file_sides      what it copies from and to
copies          the program `scp`
server          the action ssh-server: serves ssh in a task
server_files    the folder <pai>/ssh
server_session  one session of a client with the server
image_sshd      the image's own sshd instead
remote_program  a program that a session has started
barrier         the action ssh-barrier: waits until all tasks are reachable
"""
