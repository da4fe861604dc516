"""What kedge creates in a namespace: from a plan to dicts, pure.

names             the names of objects
labels            labels, annotations and owner of objects
pod_paths         what runs in the containers of a job's pods, and where
run_objects       the objects of a run besides its pods: anchor, Service, Secrets, ConfigMaps
code_pieces       the code of a job in ConfigMaps
pull_secret       the passwords of registries
driver_job        the Job of the driver
network_policies  who may reach the pods of a run
task_pod          the pod of a task attempt
pod_place         what is the same for all task pods
task_volumes      the volumes of a task pod
storages          the storages of a job as volumes
task_security     what a task may do on its node
own_containers    what kedge's own containers have in common
scheduling        where pods may run, and their queue
quantities        amounts as Kubernetes writes them
pod_patch         the site's patch for task pods
strategic_merge   Kubernetes' strategic merge patch
"""
