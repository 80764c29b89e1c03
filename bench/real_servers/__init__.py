"""The dock's alerts on a real Prometheus and PostgreSQL."""
