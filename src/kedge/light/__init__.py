"""Light stand-ins for parts of the standard library, for what is loaded at every start of a task. Each has the names of
its model, behaves like it, and is for type checkers the model itself. What they save together is half of the
supervisor's start: `typing`, `collections`, `re`, `enum` and `contextlib`, which the models load.

types        of typing, types and collections.abc
json         of json
signal       of signal
contextlib   of contextlib
hashlib      of hashlib, for what starts a job
functools    of functools
re2          of re2
tls_clients  of ssl, for clients
"""
