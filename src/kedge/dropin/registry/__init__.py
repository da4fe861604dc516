"""What a registry answers about an image (OCI distribution specification).

addresses      the addresses of registries and of their mirrors
asking         requests with their limits: time, retries, redirects
tokens         tokens for one repository, from the server that the registry names
image          whether an image exists: the conversation with one registry
image_checker  init program: whether the task's image can be pulled
"""
