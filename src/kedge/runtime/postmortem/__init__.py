"""After a failed attempt: evidence, cause, report.

ending       the end of an attempt, and its report
analysis     why it failed; loaded only then
case         the failed attempt as a value
collect      evidence: logs, codes, facts of the machine
patterns     what needs regular expressions
earlier_log  failures before the last 10 MiB of a log
other_logs   other places that may hold the reason
work_logs    `*.log` files in the working folder
gpus         errors of GPUs
gpu_probe    program: asks the NVIDIA driver
isolated     runs risky work in a child process
"""
