"""Connections to an API server of Kubernetes, over httpx and wsproto.

What the usual clients of Kubernetes bring besides takes half a second and 30 MB in every process, and lacks input for
programs on a server of 1.20, deletion with a uid, and plugins of kubeconfig files.

kinds            the kinds of objects that kedge uses, and their paths
api_errors       errors of the API server as ours
endpoint         where an API server is, and the credentials for it
kubeconfig       the endpoint of a context in kubeconfig files
service_account  the endpoint inside a pod
credentials      credentials that a program prints
tls              the TLS context of an endpoint
connections      HTTP requests with deadlines
watches          a stream of changes
pod_log          the log of a container with its times
web_socket       a WebSocket, both ways
exec_stream      a program in a container, with its streams
"""
