"""What happens around every call, outermost first: request id, access log, errors, admission, deadline."""
