"""What a site and a user set once, for all jobs.

table            every key: what it means, its type and default, and who may set it
document_schema  the JSON Schema of a settings file, made from the table
listing          every setting with its value, as `kedge config` shows them
storage_checks   conflicts in the storages of a file
files            reads and checks one settings file
variables        reads values from environment variables
values           the values of all sources, and where each comes from
"""
