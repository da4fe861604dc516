"""What commands print for people.

answer             why a job failed
cluster_text       what a cluster says about a job that waits there
copy_progress      how far a copy has come
progress_bar       a bar for bytes that are being copied
live               a job that runs in the foreground
log_lines          lines of many tasks on one console
notes              what a user should know and need not act on
options_text       the options of a run
output_text        what tasks have written for the user, in a few lines
plan_text          plans and requests of engines as text
problems           errors and warnings
requirement_graph  prerequisites as a tree or as SVG
summary            the end of a run: tasks, verdict, logs
styled_text        text with colours
tables             tables and wrapped text
wording            wording of events, states, durations and paths
"""
