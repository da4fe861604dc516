"""The agent beside a task's supervisor on a cluster: it connects the task with the job's controller.

__main__        starts it from a folder
launch          starts the agent once modules can be imported
main            its command line, and its orders on stdin
keeper          the parent of the agent, which restarts it
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
state           what a restarted agent needs to continue
addresses       where the node can be reached
shared_folder   whether the node sees the run folder
node_ports      takes and holds ports of the node
task_files      what a supervisor reads
supervisor      starts a supervisor
running         the supervisor that runs
results         reads the report and events of a supervisor
tree            kills what runs below the keeper
end_tasks       kills tasks whose agents do not react
connection      the agent's end of the link
dialing         finds the controller
host_names      resolves host names among the controller's addresses
dial            one try to connect
mirror          sends the task's files where no folder is shared
mirror_scan     finds new bytes in the task's files
mirror_outputs  the task's outputs, sent at the end
unacked         messages that the controller has not acknowledged
"""
