"""What kedge creates in a namespace: from a plan to dicts, pure.

names   the names of objects
labels  their labels, annotations and owner
"""
