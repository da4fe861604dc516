"""From a job to a job whose names all mean something.

resolve            the steps in order
model              the result: ResolvedJob
graph              which prerequisites a role needs
requirement        references to prerequisites, and values for templates
inherit            `<% this.key %>` in prerequisites
items              a prerequisite while it is resolved
lookup             what a reference to a prerequisite means
scope              what `$parameters`, `$secrets` and the like mean
environment        environment variables that a job sets
given_environment  variables that the submitter gives
secrets            values of secrets
code               folders whose copies tasks start in
storages           storages that tasks see
unused             definitions that nothing uses
job_ssh            one ssh server a task, whoever asks for it
steps              what plugins contribute to a task
plugins            finds a plugin by name
plugins_of_others  finds plugins that are not built in
plugin_uses        where plugins are used
plugin_installed   plugins of installed packages
plugin_executable  plugins that are executables
plugin_answer      checks the answer of an executable
plugin_files       writes the files of a plugin
lock_file          the lock file
pins               git commits and image digests to pin
document_store     gets documents, checks them against the lock file
document_cache     documents by SHA-256
documents          from bytes to prerequisites
sources/           where documents come from
"""
