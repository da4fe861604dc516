"""What engines share whose controller runs inside a cluster, on another node than most tasks.

base            what such an engine adds: how agents are launched, and what the cluster says about their ends
backend         starts and follows tasks through their agents
descriptors     whether this process may open enough files
settings        how long a job waits for what
member          what is known of one task and its agent
barrier         no task starts before all are ready
gate            the barrier of the current job attempt
waits           records why launched tasks have not started yet
peers_record    the addresses and ports of all tasks, kept for another controller
placement       the folders and TaskSpecs of tasks
addresses       the address of a task for its peers
own_addresses   the addresses of this machine, for agents
agent_messages  what agents say about their supervisors
task_starts     starts tasks once all are ready
settlement      how a task ended, by its agent's report and the cluster's
task_ends       the reports of tasks that left none
attempt_close   the end of a job attempt: its agents clean up and leave
claim           which of several controllers may write to a run
heartbeat       a file that shows that the controller is alive
link_server     the controller's end of the link to the agents
link_updates    what the link reports
link_session    what the controller remembers of an agent while connections come and go
link_sessions   all agents: whose a connection is, who is silent
link_admission  who may speak to the controller
link_owners     requests of the user's own commands
mirrors         the mirrored files of all tasks, where no folder is shared
mirrored        stores files that agents send
mirror_store    the mirrored files of a task attempt on disk
mirror_mark     a file that records how much of a mirror is stored
owner_client    how the user's own commands ask a controller
link_listener   the socket that waits for connections
link_selector   the connections that are ready
"""
