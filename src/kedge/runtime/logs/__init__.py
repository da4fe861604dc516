"""The task's output, from pipes to files.

pipes         reads what the task prints
output        stdout and stderr, and both together
combine       user-all: whole lines of both streams
console       copies to the supervisor's own output
rotate        files that are cut near a size limit
times         when the bytes of a log were printed
runtime_log   runtime.log
mask          replaces secrets
secret_forms  how a secret may look in a log
tails         the last bytes of a log
"""
