"""What engines share whose controller runs inside a cluster, apart from the tasks.

base  what such an engine adds: how agents are launched, and what the cluster says about their ends
"""
