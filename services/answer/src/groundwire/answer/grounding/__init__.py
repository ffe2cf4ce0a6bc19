"""The claims of a text, and the stored sources that support or contradict them."""
