"""What the init phase needs of a cluster: where its API server is, and a framework with the state of its tasks.

credentials         how a client shows who it is
access              where the API server is, from variables, a kubeconfig file or the pod's service account
kubeconfig          reading a kubeconfig file
permissions         what to do when the API server refuses a request
framework_request   GET of one framework
role_statuses       the statuses of a framework's roles, plain or compressed
framework_status    which tasks of a framework are ready
framework_files     the files that a framework is written to
framework_settings  the variables of the programs that read a framework
barrier             init program: wait until all tasks of a framework have an address
retriever           init program: read a framework once
"""
