"""The process that runs one job. It lives on when the terminal closes.

__main__    starts it: finds kedge, waits for its orders
main        runs the job, sends how it ended
in_cluster  a controller inside a cluster, with orders from the run folder
driver      a controller in a pod of its own
launch      the first steps in a cluster, where a bundle starts
ending      the report of the job, or the message of an error
client      the submitter's side: starts a controller, sends it orders, waits for its end
remote      the submitter's side for a controller that runs in a cluster
"""
