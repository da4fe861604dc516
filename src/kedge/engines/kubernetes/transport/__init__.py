"""Connections to an API server of Kubernetes, with the standard library alone: a driver starts in a pod with little
memory, and what the usual clients bring takes half a second and 30 MB.

kinds          the kinds of objects that kedge uses, and their paths
api_errors     what goes wrong, in words
endpoint       where an API server is, and what proves who asks
kubeconfig     the endpoint of a context in kubeconfig files
service_account  the endpoint inside a pod
credentials    what a program prints that proves who asks
tls            the TLS context of an endpoint
proxies        the proxy on the way to a server
connections    HTTP requests with deadlines, over connections that are kept
watches        a stream of changes
web_socket     frames of a WebSocket, both ways
exec_stream    a program in a container, with its streams
"""
