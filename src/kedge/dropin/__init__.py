"""OpenPAI's init phase: what an init container does before the user's container starts. From a framework, a job
configuration or a runtime specification it makes a TaskSpec for the supervisor.

launch         where a bundle starts
main           the command line
phase          one init phase: folders, then steps
specification  which list of steps applies
init_spec      reads INIT_CONFIG and init_plugins.yaml
steps          the steps, in their order
exit_codes     from a step's exit code to the container's
child          runs a step that is a program of its own
program_files  the built-in programs as files in init.d
work_folder    cleans the work folder, and copies the runtime's tree to it
paths          where the init phase reads and writes
init_log       the lines of init.log
program        what an init program is: a function `run(arguments, context)`
programs       the built-in init programs by their names, and running one as a process
cluster/       a cluster's API server, and frameworks
registry/      what a registry answers about an image
net/           HTTP
ports/         the ports of a task
task/          from a framework or a specification to the TaskSpec
"""
