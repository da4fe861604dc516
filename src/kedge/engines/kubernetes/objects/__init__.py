"""What kedge creates in a namespace: from a plan to dicts, pure.

names      the names of objects
labels     their labels, annotations and owner
pod_paths  what runs in the containers of a job's pods, and where
"""
