"""The CodeAct sub-agent: answers for one node whose tool failed, within a budget."""
