"""Frozen values that everything else passes around. Pure: no I/O, clock, logging or metrics."""
