"""triage: decides alerts by walking a written procedure with compiled, versioned tools."""

# Written here and read by the build: asking the installed metadata for it costs each start 20 ms.
__version__ = "0.1.0"
