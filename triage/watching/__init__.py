"""What looks at tools while they work: shadows beside them, drift under them."""
