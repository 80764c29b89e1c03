"""MCP servers as a source, read-only tools: over stdio, over streamable HTTP, and in this process
as the face of another source."""

from triage.adapters.mcp.face import EVERYTHING, METRICS, TABLES, FaceSource
from triage.adapters.mcp.source import McpSource

__all__ = ["EVERYTHING", "METRICS", "TABLES", "FaceSource", "McpSource"]
