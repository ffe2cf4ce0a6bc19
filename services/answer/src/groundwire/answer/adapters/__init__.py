"""The implementations of the ports of the answer service."""
