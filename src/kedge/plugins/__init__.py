"""The interface of plugins, and the built-in ones.

base         the interface
parameters   tables of parameters, and reading values by them
cmd          shell lines at events of a task
git          clones a repository
download     downloads files
storage      mounted storages
tensorboard  TensorBoard beside the first task
ssh          ssh between tasks and for their user
"""
