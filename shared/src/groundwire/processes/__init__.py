"""Child processes: one way to start, call, watch and end them, for vector engines, index builders and parsers."""
