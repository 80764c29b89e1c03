"""The tool library: every version of every node's tool, which one is active, and why to trust it.

`loader` is what a running daemon needs; `lifecycle` is what a person changes it with. Tools are
read by path, verified against their manifest and compiled; they are never imported.
"""
