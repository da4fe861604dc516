"""The process that runs one job. It lives on when the terminal closes.

__main__  starts it: finds kedge, waits for its orders
main      runs the job, writes its report, sends how it ended
client    the submitter's side: starts it, orders it, waits for its end
"""
