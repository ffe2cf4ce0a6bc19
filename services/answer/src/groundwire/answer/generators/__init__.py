"""Chat models that write answers: the endpoint, the prompt, and what is taken from the reply."""
