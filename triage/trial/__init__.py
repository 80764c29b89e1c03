"""Tools nobody approved, run on cases: in the sandbox, and nowhere else."""
