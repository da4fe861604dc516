"""The commands of `kedge`, one per file. Each is loaded when it is used.

run         run a job
attach      show an active run again
validate    check a job file
plan        show what will run
lock        pin external names
rerun       run the job of a run again
ps          list runs
show        show one run
logs        print logs of tasks
outputs     list what tasks have written for the user
cp          copy files out of a run and into it
exec        run a program beside a task
ssh         connect to a task
wait        wait for the end of a run
stop        stop a run
release     end the hold of a failed task
rm          delete runs
diagnose    explain a failure from logs
rules       list and test rules for failures
cache       show and prune caches
bundle      build the runtime's bundle
storages    list storages
kubernetes  prepare namespaces of a Kubernetes cluster
config      show settings
schema      print the JSON Schema of job files
completion  print the completion script of a shell
"""
