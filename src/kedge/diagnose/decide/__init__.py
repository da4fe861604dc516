"""From what was found to the answer.

classify    the steps for one task: scan, choose, explain
candidates  everything that may be the cause
select      which candidate ended the process
facts       facts of the machine that outrank a log
peers       which ranks were missing
exit_codes  what an exit code alone means
remedies    remedies that name the subject of a failure
limits      tasks that a time limit has ended
job         the job's verdict: which task failed first
"""
