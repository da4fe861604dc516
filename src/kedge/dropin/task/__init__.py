"""From a framework or a specification to the TaskSpec, variables and scripts of this task.

documents         reads YAML files
env_generator     init program: a framework's variables
framework         reads a framework: roles, port rules, where tasks run
framework_parser  init program: a framework becomes the job's configuration, variables and the TaskSpec
folder_plugins    plugins of a site, in folders
own_task          which task this is, and the addresses of all
plugin_steps      steps from the uses of plugins
rendering         references in commands and parameters
secret_values     the secrets that are mounted
ssh_access        keys for the plugin ssh
task_file         writes the TaskSpec
task_image        which image a task uses, and its credentials
task_source       the commands and the uses of plugins, from a specification or a job
user_command      init program: the TaskSpec with the user's command
"""
