"""Every tool against labelled cases, and the cases against mutants of the tools."""
