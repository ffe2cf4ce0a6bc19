"""`groundwire pipeline`: show how fast searches are, and how many fail or find nothing."""

from typing import TYPE_CHECKING

import click

from groundwire.cli.health import housekeeping, show_housekeeping
from groundwire.cli.options import address_option, connect, json_option
from groundwire.cli.output import print_json, print_line

if TYPE_CHECKING:
    from google.protobuf.duration_pb2 import Duration

    from groundwire.api.retrieve.v1 import library_service_pb2 as library_pb
    from groundwire.api.retrieve.v1 import query_log_pb2


@click.command()
@click.option("--collection", "-c", default="", help="Only searches in this collection.")
@click.option("--window", type=float, help="Only searches of the last so many seconds, at most 3600.")
@address_option
@json_option
def pipeline(collection: str, window: float | None, address: str, as_json: bool) -> None:
    """Show the figures of the server's searches since it started, or of a recent window."""
    from groundwire.cli.messages import message_json  # noqa: PLC0415 - --help stays fast

    with connect(address) as client:
        stats = client.pipeline_stats(collection=collection, window=_duration(window))
        behind = None if as_json else housekeeping(client)
    if as_json:
        print_json(message_json(stats))
    else:
        _show(stats)
        show_housekeeping(behind)


def _show(stats: "library_pb.GetPipelineStatsResponse") -> None:
    since = stats.start_time.ToDatetime().isoformat(sep=" ", timespec="seconds")
    print_line(f"since {since} UTC: {stats.request_count} searches on {stats.vector_engine}")
    withheld = f"withheld candidates {stats.rejected_count}, mean relevance {stats.average_relevance:.3f}"
    print_line(f"failed {stats.error_count}, without a result {stats.empty_count}, {withheld}")
    print_line(f"{'ms':<10}{'count':>8}{'mean':>10}{'p50':>10}{'p95':>10}{'p99':>10}{'max':>10}")
    parts = (
        ("total", stats.total_latency),
        ("embedding", stats.embedding_latency),
        ("search", stats.search_latency),
        ("engine", stats.engine_latency),
    )
    for name, latency in parts:
        print_line(f"{name:<10}{latency.count:>8}" + "".join(f"{value:>10.1f}" for value in _figures(latency)))


def _figures(latency: "query_log_pb2.LatencySummary") -> list[float]:
    from groundwire.cli.messages import milliseconds  # noqa: PLC0415 - --help stays fast

    return [milliseconds(each) for each in (latency.mean, latency.p50, latency.p95, latency.p99, latency.maximum)]


def _duration(seconds: float | None) -> "Duration | None":
    from google.protobuf.duration_pb2 import Duration  # noqa: PLC0415 - --help stays fast

    if seconds is None:
        return None
    message = Duration()
    message.FromNanoseconds(int(seconds * 1e9))
    return message
