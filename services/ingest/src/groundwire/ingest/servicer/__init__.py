"""gRPC edge of the ingest services: parse, authorise, run a use case in a thread for its kind of work, and respond."""
