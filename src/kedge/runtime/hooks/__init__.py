"""Scripts and actions that run before and after the command.

schedule            which hooks run when
hook_run            runs one script or action
services            programs beside the command
retries             tries again
script              the shell text of a hook
report_environment  program: reports a script's environment
side_channel        a pipe from a hook to the supervisor
"""
