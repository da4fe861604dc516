"""For tests of plugins and engines.

wait                  waiting for a condition
command               kedge as a user starts it
backend               a scripted Backend
plugins               what every plugin must do
raw_server            an HTTP server that sends given bytes
framework_controller  runs Frameworks of a namespace, as FrameworkController does
framework_status      statuses of Frameworks
kubernetes_api/       a small Kubernetes API server, over HTTP
conformance/          what every engine must do
"""
