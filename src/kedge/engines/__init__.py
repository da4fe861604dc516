"""Where a plan runs.

base         the interface of an engine
registry     engines by name, and their options
installed    engines of installed packages
local/       processes on this machine
container/   containers on this machine
slurm/       one allocation of a Slurm cluster
kubernetes/  pods in a namespace of a Kubernetes cluster
machine/     what engines on this machine share
cluster/     what engines share whose controller runs inside a cluster
controller/  attempts, retries and stops, for all engines of ours
"""
