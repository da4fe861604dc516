"""What engines share whose controller runs inside a cluster, apart from the tasks.

base       what such an engine adds: how agents are launched, and what the cluster says about their ends
placement  the folders and TaskSpecs of tasks
addresses  the address of a task for its peers
task_ends  the reports of tasks that left none
"""
