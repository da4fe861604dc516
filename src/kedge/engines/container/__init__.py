"""Runs every task in a container of this machine's Docker or Podman.

engine           the engine: check, run, stop
options          the options of this engine
backend          starts and follows the containers of a job
container_start  starts the container of a task
container_end    how a container ended; removes it
start_gate       holds tasks until all containers run
status_pipe      the pipe to which supervisors write events
task_container   the container of one task attempt
engine_answers   what a container engine answers
engine_facts     remembers what Podman says of its machine
engine_retries   repeats requests that may pass
out_of_memory    tells kills for memory apart
render           from a plan to a container, pure
container_spec   one container as a value
command_line     a container as a `docker run` line
dry_run          the requests that `kedge plan` shows
placement        addresses, ports, GPUs and mounts of each task
storages         folders and volumes of storages
client           Docker's API; the only user of the package docker
connection       connects; starts a Podman service where needed
engine_address   where Docker or Podman listens
exec             runs a program in the container of a task
images           pulls each image once
pulls            the progress of one pull
pinned_images    images pinned by digest
image_pins       pins of local images, for `kedge lock`
network          the network of a job
watcher          notices containers that end
callbacks        hands events from threads to the deciding thread
memory_kills     notices the kernel's OOM kills
failures         reports of containers that ended badly or never started
lost_files       files that are gone with their container
ownership        files that another user owns
downloads        keeps downloaded data for later jobs
leftovers        containers, networks and volumes that are left of a run
notes            notes for the submitter
"""
