"""From a node's text to a tool that has proved itself: collected, made, tested, repaired, gated."""
