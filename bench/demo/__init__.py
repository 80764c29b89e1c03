"""A day of the outbound dock, decided while you watch."""
