"""Spans."""

from groundwire.api.common.v1 import span_pb2
from groundwire.kernel.spans import Span


def parse_span(message: span_pb2.Span) -> Span:
    """Return the span of a message, unchecked."""
    return Span(message.start, message.end, message.start_byte, message.end_byte)
