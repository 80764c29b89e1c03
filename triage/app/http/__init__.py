"""The daemon's HTTP face: intake, decisions, operations."""
