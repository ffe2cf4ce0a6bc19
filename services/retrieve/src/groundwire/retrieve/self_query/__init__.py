"""Deriving a filter from a question (requirements S1-38 to S1-40)."""
