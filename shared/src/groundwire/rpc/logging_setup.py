"""How the process logs: one JSON object a line on stderr, or readable lines for a person."""

import json
import logging
import sys
from collections.abc import Callable, MutableMapping
from typing import Any, Literal, TypeAlias

import structlog

from groundwire.rpc import request_context
from groundwire.rpc.log_lines import LineLogger

LogFormat: TypeAlias = Literal["json", "console"]


def configure_logging(log_format: LogFormat = "json", level: int = logging.INFO, *, collected: bool = False) -> None:
    """Send the process's own logs and those of its libraries to stderr in one format.

    Every line of a call carries its `request_id`. Libraries log from WARNING up. With `collected`, lines below WARNING
    are written together, up to 50 ms later.
    """
    shared: list[structlog.typing.Processor] = [
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _add_request_id,
    ]
    renderer = _renderers(log_format)
    structlog.configure(
        processors=[*shared, *renderer],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=_collecting() if collected else structlog.WriteLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    processors = [structlog.stdlib.ProcessorFormatter.remove_processors_meta, *renderer]
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(processors=processors, foreign_pre_chain=shared))
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)


def _collecting() -> Callable[..., LineLogger]:
    lines = LineLogger(sys.stderr)
    return lambda *_names: lines


def _renderers(log_format: LogFormat) -> list[structlog.typing.Processor]:
    if log_format == "console":
        return [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())]
    encode = json.JSONEncoder(ensure_ascii=False, default=repr).encode  # made once: json.dumps makes one a line
    return [structlog.processors.dict_tracebacks, structlog.processors.JSONRenderer(lambda event, **_: encode(event))]


def _add_request_id(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    request_id = request_context.current().request_id
    if request_id:
        event.setdefault("request_id", request_id)
    return event
