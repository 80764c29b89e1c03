"""MCP servers as a source: stdio and streamable HTTP, read-only tools."""

from triage.adapters.mcp.source import McpSource

__all__ = ["McpSource"]
