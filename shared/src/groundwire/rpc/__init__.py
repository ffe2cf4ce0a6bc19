"""gRPC plumbing without business rules: servers, channels, errors, budgets."""
