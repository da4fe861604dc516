"""The link: what the agents beside the tasks and the controller say to each other, over TLS.

frames          a message on the wire: a JSON object and bytes
messages        the kinds of messages, and the first one of each side
keys            the certificate and the tokens of a run
launch          what an agent is told when it starts
pod_folders     where things are in the pod of a task
input_messages  input and signals of a program on one stream
mirroring       which files of tasks travel, and how they are compared
stream          one connection with TLS that never blocks
"""
