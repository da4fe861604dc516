"""Runs every task as processes on this machine."""
