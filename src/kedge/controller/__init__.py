"""The process that runs one job. It lives on when the terminal closes.

__main__    starts it: finds kedge, waits for its orders
main        runs the job, sends how it ended
in_cluster  the same inside a cluster, with orders from the run folder
driver      the same in a pod that has only the controller
launch      the first steps of that, in a bundle
ending      the report of the job, or the message of an error
client      the submitter's side: starts it, orders it, waits for its end
remote      the same for a controller that runs in a cluster
"""
