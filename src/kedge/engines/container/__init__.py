"""Runs every task in a container of this machine's Docker or Podman.

engine           the engine: check, run, stop
options          the options of this engine
backend          starts and follows the containers of a job
container_start  starts the container of a task
start_gate       holds tasks until all containers run
status_pipe      the pipe to which supervisors write events
task_container   the container of one task attempt
dry_run          the requests that `kedge plan` shows
placement        addresses, ports, GPUs and mounts of each task
storages         folders and volumes of storages
exec             runs a program in the container of a task
network          the network of a job
watcher          notices containers that end
callbacks        hands events from threads to the deciding thread
ownership        files that another user owns
downloads        keeps downloaded data for later jobs
leftovers        containers, networks and volumes that are left of a run
notes            notes for the submitter
api/             the API of Docker or Podman: where it is, what it answers
rendering/       from a plan to a container, pure
images/          the images of a job
ends/            how containers end, and what is lost with them
"""
