"""gRPC edge of the ingest services: parses, authorises, runs a use case in a thread of its kind, and answers."""
