"""The composition root: settings, start, reload, stop."""
