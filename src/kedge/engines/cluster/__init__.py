"""What engines share whose controller runs inside a cluster, apart from the tasks.

base            what such an engine adds: how agents are launched, and what the cluster says about their ends
backend         starts and follows tasks through their agents
settings        the times that a job allows
descriptors     whether this process may open enough files
member          what is known of one task and its agent
barrier         all tasks come together before any starts
gate            that of the attempt that runs
waits           what tasks wait for that have been launched
peers_record    that these have come together, and what they know of each other
placement       the folders and TaskSpecs of tasks
addresses       the address of a task for its peers
own_addresses   those of this machine, for agents
agent_messages  what agents say about their supervisors
task_starts     starts tasks once all have come together
settlement      which word about an end counts, the agent's or the cluster's
task_ends       the reports of tasks that left none
attempt_close   agents clean up and leave
claim           which of several controllers writes to a run
heartbeat       a file that shows that the controller lives
link_server     the controller's end of the link to the agents
link_updates    what it reports
link_session    what it remembers of an agent while connections come and go
link_sessions   all of them: whose a connection is, who is silent
link_admission  who may speak to it
link_owners     the user's own commands
mirrors         the mirrored files of all tasks, where no folder is shared
mirrored        stores files that agents send
mirror_store    where and how
mirror_mark     how far that has come
owner_client    how these ask
link_listener   the socket that waits for connections
link_selector   the connections that are ready
"""
