"""Adapters of the ports of retrieve to other systems."""
