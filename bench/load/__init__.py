"""Open-loop load on one daemon."""
