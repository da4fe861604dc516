"""Completion and retry, as pure functions over events.

completion      when an attempt is over
retry           whether and when to try again
retry_decision  which fact decides about a retry
codes           what completion codes mean for a retry
"""
