"""Runs a job in a namespace of a Kubernetes cluster: creates its objects, and reaches it through the API server alone.

options     the options of this engine
api         the calls of the API that kedge needs, for dicts
transport/  connections to the API server: where it is, who asks, HTTP, WebSocket
access/     what the machine of a run's user does with a run
objects/    from a plan to the objects that are created, pure
in_driver/  what runs a job inside its driver pod
framework/  the same as Framework objects, for FrameworkController
"""
