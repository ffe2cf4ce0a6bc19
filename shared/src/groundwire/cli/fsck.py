"""`groundwire fsck`: compare the stores with the catalog, and repair them."""

from typing import TYPE_CHECKING, Any

import click

from groundwire.cli.operations import finished, no_wait_option
from groundwire.cli.options import address_option, connect, json_option
from groundwire.cli.output import counted, print_json, print_line

if TYPE_CHECKING:
    from groundwire.api.ingest.v1 import maintenance_service_pb2 as pb

_PREFIX = "STORE_FINDING_KIND_"


@click.command()
@click.option("--collection", "-c", default="", help="Collection to check; all and what they share if not given.")
@click.option("--repair", is_flag=True, help="Make vectors and indexes equal to the catalog.")
@no_wait_option
@address_option
@json_option
def fsck(collection: str, repair: bool, no_wait: bool, address: str, as_json: bool) -> None:
    """Check a running server's stores; exits with 1 if findings are left."""
    from groundwire.api.ingest.v1 import maintenance_service_pb2 as pb  # noqa: PLC0415 - --help stays fast

    with connect(address) as client:
        begun = client.check_store(collection=collection, repair=repair)
        report = finished(client, begun, pb.StoreReport, no_wait=no_wait, as_json=as_json)
    if report is None:
        return
    findings = [_as_dict(finding) for finding in report.findings]
    left = report.finding_count - report.repaired_count
    if as_json:
        totals = {"checked": report.checked_count, "repaired": report.repaired_count, "left": left}
        print_json({"consistent": report.consistent, **totals, "findings": findings})
    else:
        for finding in findings:
            print_line(_line(finding))
        if report.finding_count > len(findings):
            print_line(f"and {counted(report.finding_count - len(findings), 'finding')} more")
        repaired = f"{counted(report.repaired_count, 'finding')} repaired, {left} left"
        print_line(f"{counted(report.checked_count, 'chunk')} compared: {repaired if findings else 'nothing is wrong'}")
    if not report.consistent:
        raise click.exceptions.Exit(1)


def _as_dict(finding: "pb.StoreFinding") -> dict[str, Any]:
    from groundwire.api.ingest.v1 import maintenance_service_pb2 as pb  # noqa: PLC0415 - --help stays fast

    return {
        "kind": pb.StoreFindingKind.Name(finding.kind).removeprefix(_PREFIX),
        "collection": finding.collection,
        "subject": finding.subject,
        "message": finding.message,
        "repaired": finding.repaired,
    }


def _line(finding: dict[str, Any]) -> str:
    state = "repaired" if finding["repaired"] else "found"
    where = " ".join(part for part in (finding["collection"], finding["subject"]) if part)
    return f"{state:<8} {finding['kind']:<24} {where}{': ' if where else ''}{finding['message']}"
