"""The container's code and termination message, as OpenPAI's tools read them.

exitspec       exit specifications: from log and exit code to a container code
exitspec.json  the stock exit specification
termination    the termination message
excerpts       the lines of a log that the message shows
yaml_text      writes small YAML that every reader accepts
"""
