"""Runs every task in a container of this machine's Docker or Podman.

engine            the engine: its notes, checks, and the run of a job
options           the options that it declares
notes             what this machine does not give that a plan asks for
dry_run           what `kedge plan` shows

placement         what each task is given: folders, ports, addresses, GPUs; where the code is mounted
render            from a plan and a place to a container_spec, the value that describes one container
command_line      a container_spec as a line for a shell
network           the network of one job

backend           task attempts as containers: decides, in one thread
container_start   image, folder and container of an attempt; task_container is what is known of it
container_end     how a container ended, and its removal
start_gate        where the tasks of a gang wait for each other
status_pipe       the events of the supervisors
watcher           notices containers that have ended
memory_kills      sees the kernel kill in containers; out_of_memory tells apart whether memory ended one
failures          reports of containers that left none, or could not start
lost_files        files that were written inside containers and not kept
downloads         takes downloads into the data cache
callbacks         results of threads, for the deciding thread

client            Docker's API; engine_answers are its values and errors
engine_retries    repeats calls while the engine restarts
connection        starts podman's service where there is none; engine_address is where the engine is
images            each image pulled once; pulls is the progress of one; pinned_images, image_pins: digests
leftovers         what is left of a run in the engine; ownership: files of other users
"""
