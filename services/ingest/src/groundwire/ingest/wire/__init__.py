"""Between the messages of the contract and the types of the use cases: pure functions."""
