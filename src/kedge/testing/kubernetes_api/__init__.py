"""A small Kubernetes API server for tests: real HTTP on loopback, no cluster behind it.

    with FakeKubernetes.serving(folder) as kubernetes:
        api = KubernetesApi.connect(kubeconfig=str(kubernetes.kubeconfig))
        api.create(pod)
        kubernetes.nodes.run("pod-name")                # what a scheduler and a kubelet would write
        kubernetes.nodes.finish("pod-name", exit_code=1)

resources   the kinds it knows, and what a path means
refusals    its errors
store       the objects, their versions and their history
selectors   of labels and fields
validation  what it refuses to store
writes      create, replace, patch
deletion    grace, preconditions, finalizers, garbage collection
access      permissions, quota, admission; failures on demand
watching    streams of changes
routes      a request to its answer
exec        commands in containers: a websocket to a function of the test
server      HTTP
kueue       holds pods in queues
nodes       a scheduler and kubelets that do what a test says
"""
