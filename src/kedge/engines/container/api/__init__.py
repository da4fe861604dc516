"""The API of this machine's Docker or Podman: where it is, what is asked, what it answers.

client          Docker's API; the only user of the package docker
connection      connects; starts a Podman service where needed
engine_address  where Docker or Podman listens
engine_answers  what it answers, as values
engine_facts    remembers what Podman says of its machine
engine_retries  repeats requests that may pass
"""
