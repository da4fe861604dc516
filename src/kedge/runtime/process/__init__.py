"""Processes: start, supervise, stop, leave nothing behind.

supervise          one program at a time, with its stop
service_processes  which processes belong to services
loop               the event loop
spawn              starts a program
orphan             forks a process that does not depend on this one
signals            signals that are handled
threads            for system calls that take long
c_library          functions that Python does not have
children           adopts and reaps processes
procfs             processes below this one
time_limit         the limit of one try
cgroup             counts OOM kills
"""
