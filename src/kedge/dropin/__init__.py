"""OpenPAI's init phase: what an init container does before the user's container starts. From a framework, a job
configuration or a runtime specification it makes a TaskSpec for the supervisor.

launch            where a bundle starts
main              the command line
phase             one init phase: folders, then steps
specification     which list of steps applies
init_spec         reads INIT_CONFIG and init_plugins.yaml
steps             the steps, in their order
exit_codes        from a step's exit code to the container's
child             runs a step that is a program of its own
program_files     the built-in programs as files in init.d
work_folder       cleans the work folder, and copies the runtime's tree to it
paths             where the init phase reads and writes
init_log          the lines of init.log
program           what an init program is: a function `run(arguments, context)`
programs          the built-in init programs by their names, and running one as a process
cluster/          a cluster's API server, and frameworks
barrier           init program: wait until all tasks of a framework have an address
retriever         init program: read a framework once
framework         reads a framework: roles, port rules, where tasks run
own_task          which task this is, and the addresses of all
port_numbers      the numbers of a task's ports
documents         reads YAML files
secret_values     the secrets that are mounted
rendering         references in commands and parameters
task_source       the commands and the uses of plugins, from a specification or a job
plugin_steps      steps from the uses of plugins
ssh_access        keys for the plugin ssh
folder_plugins    plugins of a site, in folders
task_file         writes the TaskSpec
framework_parser  init program: a framework becomes the job's configuration, variables and the TaskSpec
env_generator     init program: a framework's variables
user_command      init program: the TaskSpec with the user's command
image_checker     init program: whether the task's image can be pulled
task_image        which image a task uses, and its credentials
registry/         what a registry answers about an image
port_checker      init program: whether the task's ports are free
port_holders      which process holds a port
http_client       one HTTP request with a limit for everything
http_addresses    addresses of HTTP servers
http_proxies      which proxy a request takes
http_connections  connections: name resolution and proxies
http_tls          connections: TLS
http_wire         reading a response
"""
