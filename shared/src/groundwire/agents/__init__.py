"""Tools for agents, over the Model Context Protocol."""
