"""The process that runs one job, whoever looks on.

__main__  starts it: finds kedge, waits to be told what to do
main      its life: run the job, write its report, say how it ended
client    the submitter's side: starts it, gives it its orders, hears of its end
"""
