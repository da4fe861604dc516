"""What engines on this machine share.

options          options that engines on this machine share
resources        ports and GPUs of each task
gpus             GPUs, each for one job at a time
nvml             program: asks the NVIDIA driver for GPUs
limits           whether this machine can carry a job
linked_storages  storages as links, where an engine mounts nothing
secret_files     secret values in files in memory
exec_terminal    the terminal and the signals of `kedge exec`
stop_run         stops a run from outside
lost_runs        cleans up a run whose controller is gone
"""
