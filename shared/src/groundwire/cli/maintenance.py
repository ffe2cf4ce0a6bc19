"""`groundwire reindex`, `reembed` and `fsck`: build the indexes of collections anew, check the stores, repair them."""

from typing import Any

import click

from groundwire.api.ingest.v1 import maintenance_service_pb2 as pb
from groundwire.cli.connection import connect
from groundwire.cli.operations import finished, no_wait_option
from groundwire.cli.options import collection_option, server_options
from groundwire.cli.output import counted, print_line, printed_as_json


@click.command()
@collection_option
@no_wait_option
@server_options
def reindex(collection: str, no_wait: bool) -> None:
    """Build the indexes of a collection anew from the catalog; the old ones serve until the new ones are complete.

    Stopping it changes nothing.
    """
    _build("reindex", collection, no_wait=no_wait)


@click.command()
@collection_option
@no_wait_option
@server_options
def reembed(collection: str, no_wait: bool) -> None:
    """Embed a collection with the server's model and move over to it when complete.

    Stopping it changes nothing; the vectors made so far are kept for the next run.
    """
    _build("reembed", collection, no_wait=no_wait)


def _build(method: str, collection: str, *, no_wait: bool) -> None:
    with connect() as client:
        operation = getattr(client, method)(collection=collection)
        result = finished(client, operation, pb.IndexBuildResult, no_wait=no_wait)
    if result is None or printed_as_json(result):
        return
    model = f"{result.embedding.model_name}, {result.embedding.dimensions} dimensions"
    counts = f"{counted(result.vector_count, 'vector')} of {model}; {counted(result.embedded_count, 'text')} embedded"
    print_line(f"{collection}: {counts}")


@click.command()
@click.option("--collection", "-c", default="", help="Collection to check; all and what they share if not given.")
@click.option("--repair", is_flag=True, help="Make vectors and indexes equal to the catalog.")
@no_wait_option
@server_options
def fsck(collection: str, repair: bool, no_wait: bool) -> None:
    """Check a running server's stores; exits with 1 if findings are left."""
    with connect() as client:
        operation = client.check_store(collection=collection, repair=repair)
        report = finished(client, operation, pb.StoreReport, no_wait=no_wait)
    if report is None:
        return
    findings: list[dict[str, Any]] = [
        {
            "kind": pb.StoreFindingKind.Name(finding.kind).removeprefix("STORE_FINDING_KIND_"),
            "collection": finding.collection,
            "subject": finding.subject,
            "message": finding.message,
            "repaired": finding.repaired,
        }
        for finding in report.findings
    ]
    unrepaired = report.finding_count - report.repaired_count
    totals = {"checked": report.checked_count, "repaired": report.repaired_count, "left": unrepaired}
    if not printed_as_json({"consistent": report.consistent, **totals, "findings": findings}):
        for finding in findings:
            state = "repaired" if finding["repaired"] else "found"
            where = " ".join(part for part in (finding["collection"], finding["subject"]) if part)
            print_line(f"{state:<8} {finding['kind']:<24} {where}{': ' if where else ''}{finding['message']}")
        if report.finding_count > len(findings):
            print_line(f"and {counted(report.finding_count - len(findings), 'finding')} more")
        repaired = f"{counted(report.repaired_count, 'finding')} repaired, {unrepaired} left"
        print_line(f"{counted(report.checked_count, 'chunk')} compared: {repaired if findings else 'nothing is wrong'}")
    if not report.consistent:
        raise click.exceptions.Exit(1)
