"""Reading logs.

log_text    a log as lines, without colours, read on demand
log_end     whether work went on at the end, and the last lines
prefix      prefixes of launchers and loggers: rank, time
mpi_ranks   the rank that failed first
mpi_tags    lines that mpirun's tags have cut
lines       what one line is: progress, warning, error
hedges      lines of advice, which prove nothing
progress    how far a task got
tracebacks  Python tracebacks
notebooks   tracebacks as notebooks print them
frames      frames of a traceback: user code or library
exceptions  what an exception type alone means
anchors     what is searched for in logs that are too long to read
"""
