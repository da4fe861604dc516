"""What will run. Pure: no files, no clock, no environment.

model        the plan: roles and their resources
build        from a resolved job to a plan
task         one task's part of a plan
environment  variables that are known before placement
lossless     a plan as JSON and back
"""
