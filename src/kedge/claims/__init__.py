"""What all users of a machine share, claimed for one job at a time. Engines on this machine and agents use it.

locks  claims on ports and GPUs
ports  free TCP ports, reserved
"""
