"""The engine beside a hand-written loop and LangGraph."""
