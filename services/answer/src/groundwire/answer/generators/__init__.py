"""Chat models that write answers: the endpoint, the prompt, and how the reply is checked."""
