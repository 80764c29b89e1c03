"""The fallback measured: its answers, what it costs, and that it delays nobody else."""
