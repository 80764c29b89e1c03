"""What meets the outside: each adapter conforms to a Protocol of `triage.ports` by shape."""
