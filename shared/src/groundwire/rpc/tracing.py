"""Traces: W3C trace context in and out, and spans for calls and their steps when OpenTelemetry is switched on.

Without OpenTelemetry the context of the caller is passed on unchanged and its trace id is logged, which costs nothing
where there is none.
"""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from groundwire.kernel.errors import MissingExtraError
from groundwire.kernel.latencies import trace_steps

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer

TRACES_TO: Final = "OTEL_EXPORTER_OTLP_ENDPOINT"
"""Variable with the address of the collector; tracing is off without it."""
TRACEPARENT_KEY: Final = "traceparent"
# https://www.w3.org/TR/trace-context/#traceparent-header; ids of zeros are invalid.
_TRACEPARENT: Final = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
_FLUSH_MS: Final = 2000

# The tracer of the process; empty while tracing is off.
_tracers: "list[Tracer]" = []


def start_tracing(service: str) -> Callable[[], None]:
    """Send spans to the collector that the variables `OTEL_EXPORTER_OTLP_…` name; return what sends the rest and ends.

    Spans hold names of methods and steps, codes and request ids, never anything that a caller wrote.

    Raises:
        MissingExtraError: the extra `otel` is not installed.
    """
    try:
        # Imported only when tracing is on: the packages are optional, and the import is slow.
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
        from opentelemetry.sdk.resources import OTELResourceDetector, Resource  # noqa: PLC0415
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise MissingExtraError("traces need `pip install 'groundwire[otel]'`", extra="otel") from error
    own = Resource.create({"service.name": service})
    provider = TracerProvider(resource=own.merge(OTELResourceDetector().detect()), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    _tracers[:] = [provider.get_tracer("groundwire")]
    trace_steps(_begin_step)

    def stop() -> None:
        _tracers.clear()
        trace_steps(None)
        # A collector that does not answer must not hold up the end of the process.
        provider.force_flush(_FLUSH_MS)
        provider.shutdown()

    return stop


def begin_call(method: str, traceparent: Any) -> "tuple[str, Span | None]":
    """Return the trace context of a call as its own calls and its log line carry it, and its span when tracing is on.

    `traceparent` is what the caller sent; what is no trace context counts as none.
    """
    parent = traceparent if isinstance(traceparent, str) and _TRACEPARENT.fullmatch(traceparent) else ""
    if not _tracers:
        return parent, None
    from opentelemetry import context, trace  # noqa: PLC0415 - see above
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator  # noqa: PLC0415 - see above

    service, _, name = method.lstrip("/").rpartition("/")
    span = _tracers[0].start_span(
        f"{service}/{name}",
        TraceContextTextMapPropagator().extract({TRACEPARENT_KEY: parent}),
        trace.SpanKind.SERVER,
        {"rpc.system": "grpc", "rpc.service": service, "rpc.method": name},
    )
    # Never detached: each call has a task of its own, and the binding ends with it.
    context.attach(trace.set_span_in_context(span))
    own = span.get_span_context()
    return f"00-{own.trace_id:032x}-{own.span_id:016x}-{own.trace_flags:02x}", span


def end_call(span: "Span", code: str, request_id: str) -> None:
    span.set_attribute("rpc.response.status_code", code)
    span.set_attribute("groundwire.request_id", request_id)
    if code != "OK":
        from opentelemetry.trace import StatusCode  # noqa: PLC0415 - see above

        span.set_status(StatusCode.ERROR, code)
    span.end()


def _begin_step(name: str) -> Callable[[], None] | None:
    """Begin the span of a step below that of the call, which it does not replace as the current one.

    A step may begin and end in different tasks, between which a binding cannot be taken back.
    """
    from opentelemetry import trace  # noqa: PLC0415 - see above

    # Work that belongs to no call would fill the collector with traces of one span.
    if not _tracers or not trace.get_current_span().get_span_context().is_valid:
        return None
    return _tracers[0].start_span(name).end
