"""Finds valid text in a job file that is most likely a mistake: warnings, and errors where nothing else can be meant.

checks     all of them, in one place
texts      the strings in which references work, and those in which users may expect them to
tags       text that looks like a reference but is not; references where they do not work
variables  PAI_ variables of roles, tasks and ports that the job does not have
keys       misspelled keys in mappings that accept any key
values     numbers and empty values that have no effect
limits     time limits that contradict each other
scripts    the shell scripts of a job, and the place in the file of each of their lines
shell      the syntax errors that `bash -n` finds in them
"""
