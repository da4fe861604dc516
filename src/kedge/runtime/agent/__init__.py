"""The agent beside a task's supervisor on a cluster: it connects the task with the job's controller.

__main__        starts it from a folder
launch          the agent's first steps
main            its command line, and what it is told on stdin
keeper          the process above the agent, which starts it again
node_folders    the agent's folders on the node
run             the agent's loop
agent           what the agent does: serves the controller and the task
pod             its start in the pod of a task
pod_agent       what it does in a pod
pod_files       what it writes for the supervisor in a pod
pod_code        unpacks the job's code in a pod
pod_code_fetch  fetches large code from the controller
prepare_pod     program: prepares a pod before its containers start
pod_supervisor  the supervisor in a pod's other container
state           what a new agent needs to go on
addresses       where the node can be reached
shared_folder   whether the node sees the run folder
node_ports      takes and holds ports of the node
task_files      what a supervisor reads
supervisor      starts a supervisor
running         the supervisor that runs
results         what a supervisor leaves
tree            kills what runs below the keeper
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
