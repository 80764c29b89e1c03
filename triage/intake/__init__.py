"""What came over the wire, as arrivals. Pure: no I/O, clock or logging. Start at `formats.parse`.

Every format has a module of its own. All of them refuse what cannot be an alert with a
PayloadError that names the field in the sender's own document, and tolerate unknown keys.
"""
