"""What the user wrote: the job file, checked.

parse             from a file to a Job, or to every problem in it
model             the Job
build             from checked values to a Job
schema            the JSON Schema of job files, and the check against it
job.schema.json   the schema itself
shape             whether a value fulfils a schema
violations        what violates the schema, and where
schema_messages   violations of the schema, in words
checks            what must hold beyond the shape
environment       environment variables that a job sets
item_checks       checks of one prerequisite
names             names that must be defined
reference_syntax  `<% $parameters.lr %>` and the like, and what they name
references        references with their places in the file
templates         `{{ name }}`, replaced in the parsed tree
addresses         names and addresses of prerequisites
plugins           names of plugins
secret_places     where a job file holds secrets
edit              changes values in a text
redact            job files without secrets
hidden_lines      lines that messages must not show
libyaml           PyYAML, which reads YAML events
yaml              YAML 1.2 with positions
yaml_events       what libyaml reads
toml              TOML with positions
toml_places       where keys and values of a TOML text stand
compose           from YAML events to nodes
nodes             nodes with their positions
marks             positions by the paths of values
scalars           what a plain scalar means
yaml_errors       libyaml's messages, explained
yaml_escapes      characters that libyaml would misread
files             reads job files
units             numbers with units
suggest           the name that was meant
message_text      how messages show values and lines
tolerant          looks into values of unknown shape
lint/             what is allowed and most likely a mistake
"""
