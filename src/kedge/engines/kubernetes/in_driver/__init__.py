"""Runs a job inside its driver pod: what the controller does there.

lease         which of several drivers decides
leaving       how one leaves that may not
decision_log  the events of the run, where they outlive the driver's node
log_pieces    the ConfigMaps in which they are
log_files     files of the run folder in it
"""
