"""Why a task failed: evidence and logs in, one cause with its proof out.

model        the values of a diagnosis: evidence, cause, answer
causes.toml  every cause: meaning, owner, remedy
regex        RE2, compiled when first needed
characters   log bytes as characters, for RE2
log/         reading logs: lines, prefixes, tracebacks
rules/       rules as data, and the scan for them
decide/      from hits and facts to the cause, of a task and of a job
exit_spec/   container codes and the termination message
"""
