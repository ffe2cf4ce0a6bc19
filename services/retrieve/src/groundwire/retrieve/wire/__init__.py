"""Translates between the messages of the contract and the domain."""
