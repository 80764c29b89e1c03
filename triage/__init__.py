"""triage: decides alerts by walking a written procedure with compiled, versioned tools."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("triage")
except PackageNotFoundError:  # running from a checkout that was never installed
    __version__ = "0+unknown"
