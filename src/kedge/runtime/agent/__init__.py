"""The agent beside a task's supervisor on a cluster: it connects the task with the job's controller.

__main__        starts it from a folder
launch          its first steps
main            its command line, and what it is told on stdin
keeper          the process above it, which starts it again
node_folders    its own folders on the node
run             its loop
agent           what it does
pod             its start in the pod of a task
pod_agent       what it does there
pod_files       what it writes for the supervisor there
pod_code        unpacks the job's code there
pod_code_fetch  fetches it from the controller, if it is large
prepare_pod     program: prepares the pod, before its containers start
pod_supervisor  the supervisor in the other container
state           what a new agent needs to go on
addresses       where the node can be reached
shared_folder   whether the node sees the run folder
node_ports      takes and holds ports of the node
task_files      what a supervisor reads
supervisor      starts a supervisor
running         the supervisor that runs
results         what a supervisor leaves
tree            kills what runs below
end_tasks       ends tasks whose agents are silent
connection      the agent's end of the link
dialing         finds the controller
host_names      names among the controller's addresses
dial            one try to connect
mirror          sends the task's files where no folder is shared
mirror_scan     the files as they are now
mirror_outputs  the outputs, at the end
unacked         what the controller may not have yet
"""
