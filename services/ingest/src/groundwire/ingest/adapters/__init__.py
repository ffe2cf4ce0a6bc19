"""The parser process and the libraries that only it uses."""
