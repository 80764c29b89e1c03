"""Replicas against real servers while everything is killed, and what is true at the end."""
