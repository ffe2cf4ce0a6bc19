"""`groundwire health`, `pipeline`, `logs`, `audit` and `stats`: how a server is, what it did, and what it stores."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from itertools import islice

import click
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp
from grpc_health.v1.health_pb2 import HealthCheckResponse

from groundwire.api.ingest.v1 import maintenance_service_pb2
from groundwire.api.retrieve.v1 import stats_pb2
from groundwire.cli.connection import connect
from groundwire.cli.messages import message_json, milliseconds
from groundwire.cli.options import COUNT, is_json, server_options, text_option
from groundwire.cli.output import (
    counted,
    print_fields,
    print_json,
    print_line,
    print_list,
    print_table,
    printed_as_json,
)
from groundwire.client import GroundwireClient
from groundwire.client.contract import Contract
from groundwire.client.transport import all_items
from groundwire.kernel.errors import GroundwireError, InvalidRequestError, NotFoundError, UnavailableError

_PAGE_SIZE = 200
_SERVICES = (
    "groundwire.api.ingest.v1.IngestService",
    "groundwire.api.ingest.v1.CollectionService",
    "groundwire.api.ingest.v1.RecordService",
    "groundwire.api.ingest.v1.MaintenanceService",
    "groundwire.api.retrieve.v1.RetrieveService",
    "groundwire.api.retrieve.v1.LibraryService",
    "groundwire.api.answer.v1.AnswerService",
    "liveness",
    "accepting",
)
# The server keeps the figures of the last hour.
_LONGEST_WINDOW_S = 3600
_AUDIT_COLUMNS = ("when", "subject", "change", "resource", "request")
_STATS_COLUMNS = ("collection", "documents", "records", "chunks", "vectors", "characters", "overlap", "per document")


@click.command()
@click.option("--service", help="Check only this service.")
@server_options
def health(service: str | None) -> None:
    """Print the state of each service and failing background work; exits with 1 unless all are serving."""
    with connect() as client:
        states: dict[str, str] = {}
        lost: UnavailableError | None = None
        for name in [service] if service else _SERVICES:
            try:
                states[name] = HealthCheckResponse.ServingStatus.Name(client.health(service=name).status)
            except NotFoundError:
                states[name] = "UNKNOWN"
            except UnavailableError as error:
                states[name], lost = "UNREACHABLE", error
        housekeeping = None if service else _housekeeping(client)
        _show_health(states, housekeeping)
        if lost is not None:
            raise lost  # `connect` tells why nothing answers
    if set(states.values()) != {"SERVING"}:
        raise click.exceptions.Exit(1)


def _show_health(
    states: Mapping[str, str], housekeeping: maintenance_service_pb2.GetHousekeepingResponse | None
) -> None:
    if not is_json():
        for name, state in states.items():
            print_line(f"{state:<12} {name}")
        show_housekeeping(housekeeping)
        return
    failing: dict[str, object] = {}
    if housekeeping is not None and housekeeping.failures:
        failing["housekeeping"] = [message_json(each) for each in housekeeping.failures]
    if housekeeping is not None and housekeeping.incomplete_deletions:
        failing["incomplete_deletions"] = [message_json(each) for each in housekeeping.incomplete_deletions]
    print_json({**states, **failing})


def _housekeeping(client: GroundwireClient) -> maintenance_service_pb2.GetHousekeepingResponse | None:
    """Return the state of background work; None when the server cannot report it."""
    try:
        return client.housekeeping()
    except GroundwireError:
        return None


def show_housekeeping(housekeeping: maintenance_service_pb2.GetHousekeepingResponse | None) -> None:
    """Print a line for each failure and one for deletions that are not complete; nothing when all is done."""
    if housekeeping is None:
        return
    for each in housekeeping.failures:
        where = f" of {each.collection}" if each.collection else ""
        since = _shown_time(each.start_time)
        count = counted(each.failure_count, "time")
        print_line(f"FAILING      {each.job}{where}, {count} since {since} UTC: {each.message}")
    if housekeeping.incomplete_deletions:
        since = _shown_time(housekeeping.incomplete_deletions[0].hide_time)
        count = counted(len(housekeeping.incomplete_deletions), "deletion")
        print_line(f"CLEANING     traces of {count} since {since} UTC, which nothing finds any more")


@click.command()
@text_option("--collection", "-c", help="Only searches in this collection.")
@click.option("--window", type=float, help="Only searches of the last N seconds, at most 3600.")
@server_options
def pipeline(collection: str, window: float | None) -> None:
    """Show search statistics since the server started, or for a recent window."""
    duration = None
    if window is not None:
        if not 0 < window <= _LONGEST_WINDOW_S:  # refuses NaN, too
            raise InvalidRequestError.of("--window", f"must be above 0 and at most {_LONGEST_WINDOW_S}")
        duration = Duration()
        duration.FromNanoseconds(int(window * 1e9))
    with connect() as client:
        stats = client.pipeline_stats(collection=collection, window=duration)
        housekeeping = None if is_json() else _housekeeping(client)
    if not printed_as_json(stats):
        since = _shown_time(stats.start_time)
        print_line(f"since {since} UTC: {stats.request_count} searches on {stats.vector_engine}")
        withheld = f"withheld candidates {stats.rejected_count}, mean relevance {stats.average_relevance:.3f}"
        print_line(f"failed {stats.error_count}, without a result {stats.empty_count}, {withheld}")
        print_line(f"{'ms':<10}{'count':>8}{'mean':>10}{'p50':>10}{'p95':>10}{'p99':>10}{'max':>10}")
        for name in ("total", "embedding", "search", "engine"):
            latency = getattr(stats, f"{name}_latency")
            durations = (latency.mean, latency.p50, latency.p95, latency.p99, latency.maximum)
            figures = "".join(f"{milliseconds(each):>10.1f}" for each in durations)
            print_line(f"{name:<10}{latency.count:>8}{figures}")
        show_housekeeping(housekeeping)


@click.command()
@text_option("--collection", "-c", help="Only queries of this collection.")
@click.option("-n", "--count", type=COUNT, default=20, help="Most entries to show.")
@click.option("--since", metavar="TIME", help="Only queries from this time on; in UTC unless it has an offset.")
@click.option("--until", metavar="TIME", help="Only queries before this time; in UTC unless it has an offset.")
@server_options
def logs(collection: str, count: int, since: str | None, until: str | None) -> None:
    """Show logged queries, newest first."""
    start, end = _timestamp(since, "--since"), _timestamp(until, "--until")
    with connect() as client:
        pages = all_items.blocking(
            client,
            Contract.list_query_logs,
            "logs",
            page_size=min(count, _PAGE_SIZE),
            collection=collection,
            start_time=start,
            end_time=end,
        )
        entries = list(islice(pages, count))
    if printed_as_json(entries):
        return
    if not entries:
        print_line("no queries")
    for entry in entries:
        outcome = entry.error_reason or f"{counted(entry.result_count, 'result')}, {entry.average_relevance:.3f}"
        query = " ".join(entry.query.split()) or "(text not logged)"
        duration = f"{milliseconds(entry.processing_time):8.1f} ms"
        print_line(f"{_shown_time(entry.log_time)}  {duration}  {outcome:<24}  {entry.collection}  {query}")


@click.command()
@text_option("--resource", help="Only changes of this document, record or chunk, by id, or collection, by name.")
@text_option("--subject", help="Only changes by this subject.")
@click.option("-n", "--count", type=COUNT, default=20, help="Most entries to show.")
@click.option("--since", metavar="TIME", help="Only changes from this time on; in UTC unless it has an offset.")
@click.option("--until", metavar="TIME", help="Only changes before this time; in UTC unless it has an offset.")
@server_options
def audit(resource: str, subject: str, count: int, since: str | None, until: str | None) -> None:
    """Show who changed what is stored, newest first."""
    start, end = _timestamp(since, "--since"), _timestamp(until, "--until")
    with connect() as client:
        pages = all_items.blocking(
            client,
            Contract.list_audit_entries,
            "entries",
            page_size=min(count, _PAGE_SIZE),
            resource=resource,
            subject=subject,
            start_time=start,
            end_time=end,
        )
        entries = list(islice(pages, count))
    rows = [
        (_shown_time(each.change_time), each.subject, each.action.replace("_", " "), each.resource, each.request_id)
        for each in entries
    ]
    print_list(entries, _AUDIT_COLUMNS, rows, "no changes")


def _timestamp(text: str | None, option: str) -> Timestamp | None:
    if text is None:
        return None
    message = Timestamp()
    try:
        message.FromDatetime(datetime.fromisoformat(text))  # without an offset in UTC, as times are shown
    except (ValueError, OverflowError) as error:
        rule = "must be a date or a time in ISO 8601, such as 2026-02-10T12:00:00Z"
        raise InvalidRequestError.of(option, f"{rule}, not {text!r}") from error
    return message


def _shown_time(message: Timestamp) -> str:
    return message.ToDatetime().isoformat(sep=" ", timespec="seconds")


@click.command()
@text_option("--collection", "-c", help="Collection to show in detail; all in short if not given.")
@server_options
def stats(collection: str) -> None:
    """Show statistics of live documents and chunks, counted in the catalog."""
    with connect() as client:
        listed = list(all_items.blocking(client, Contract.list_stats, "stats", collection=collection))
    if printed_as_json(listed):
        return
    if collection:
        for each in listed:
            print_fields(
                {
                    "collection": each.collection,
                    "documents": f"{each.document_count - _sum(each.by_record_type):,}",
                    "records": _counts(each.by_record_type) or "0",
                    "chunks": f"{each.chunk_count:,}",
                    "vectors": f"{each.vector_count:,}",
                    "characters": f"{each.total_chars:,}",
                    "overlap": f"{each.overlap_share:.1%} of the characters",
                    "vectors per document": round(each.average_vectors_per_document, 1),
                    "model": f"{each.embedding.model_name}, {each.embedding.dimensions} dimensions",
                    "by format": _counts(each.by_format),
                    "projects": f"{each.project_count:,}",
                    "by project": _counts(each.by_project),
                    "by embedding model": _counts(each.by_embedding_model),
                }
            )
    else:
        print_table(
            _STATS_COLUMNS,
            [
                (
                    each.collection,
                    each.document_count - _sum(each.by_record_type),
                    _sum(each.by_record_type),
                    each.chunk_count,
                    each.vector_count,
                    each.total_chars,
                    f"{each.overlap_share:.1%}",
                    round(each.average_vectors_per_document, 1),
                )
                for each in listed
            ],
            "no collections",
        )


def _sum(counts: Iterable[stats_pb2.KeyCount]) -> int:
    return sum(count.count for count in counts)


def _counts(counts: Iterable[stats_pb2.KeyCount]) -> str:
    return ", ".join(f"{count.key or '(none)'} {count.count:,}" for count in counts)
