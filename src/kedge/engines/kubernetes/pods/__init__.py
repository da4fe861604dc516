"""What pods say about themselves, pure: from dicts of the API to the end of a task attempt, or why it has not begun.

fields              reading a pod and its events
kinds               what each end of a pod means: code, cause, sentence
pod_end             how a pod ended; the order in which its signs count
cluster_signs       ends that the cluster brings about: conditions, reasons, events
evictions           what the kubelet says when it evicts
containers          how a container ended, or why it could not start
image_problems      what registries answer
waiting             why a pod does not run yet, and for how long that may be
scheduler_messages  the scheduler's message as a sentence
kueue_workloads     what Kueue says about a Workload
driver_problems     why a run has not begun: its driver's Job and pod
"""
