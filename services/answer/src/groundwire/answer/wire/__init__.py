"""Between the messages of the contract and the answer service's own types; pure functions."""
