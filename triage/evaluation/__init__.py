"""Turns a layer of nodes into results: asks what their tools ask, then lets each tool judge."""
