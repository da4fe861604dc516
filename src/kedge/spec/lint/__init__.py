"""What a job file says and its author most likely does not mean: warnings, and errors where nothing else can be meant.

checks      all of them, in one place
texts       where references work, and where somebody may think so
tags        texts that look like references and are none; references where none works
variables   PAI_ variables of roles, tasks and ports that the job does not have
keys        keys that differ from a known one by a typing mistake, where any key may stand
values      numbers and empty values that have no effect
scripts     the shell scripts of a job, and which line of the file each of their lines is
shell       what `bash -n` says about them
"""
