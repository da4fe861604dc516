"""Runs every task in a container of this machine's Docker or Podman."""
