"""What the machine of a run's user does with a run in a cluster without a shared folder.

copy_rules        which files are copied, in which order
folder_scan       the files of a run folder as they are now
sent_files        which of them the user's machine has
copy_sender       sends what is new
serve_run         program beside the run folder: sends it
originals         which file of the copy comes from which original
local_copy        the copy on the machine of the user
copy_session      one conversation with serve_run
submitted         where a run is in its cluster
exec_copy_stream  `serve-run` in a pod
copy_state        who copies a run now, and what the copy has
fetching          fetches what is new, once or until the end
importing         runs that other machines have submitted
liveness          what Kubernetes says of a run
kept_decisions    what the cluster keeps of the records of a run whose folder has gone
exec              runs a program beside a task
tunnel            program: connects to a port of a task
pod_files         copies files into the pod of a task
file_source       lists and reads a folder in a container
kept_outputs      outputs on the site's volume and in running tasks
removal           removes what a run has on volumes
reader_pod        reads the volumes of a run
requests          what the owner asks of the driver
unheard_kill      the end of a run whose driver does not act on a kill
"""
