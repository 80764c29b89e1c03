"""One alert to one decision, under one deadline and one pinned snapshot."""
