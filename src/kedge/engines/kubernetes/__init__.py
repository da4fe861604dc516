"""Runs a job in a namespace of a Kubernetes cluster.

objects/  from a plan to the objects that are created, pure
"""
