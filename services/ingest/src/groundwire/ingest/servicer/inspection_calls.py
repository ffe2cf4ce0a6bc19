"""The calls that describe what is stored and how: message in, message out, blocking."""

from dataclasses import dataclass

from groundwire.api.ingest.v1 import ingest_service_pb2 as pb
from groundwire.catalog.deletions import Deletions
from groundwire.ingest.get_stats import GetStats
from groundwire.ingest.housekeeping import Housekeeping
from groundwire.ingest.validate_metadata import ValidateMetadata
from groundwire.ingest.wire.operations import to_failure_message, to_job_messages
from groundwire.ingest.wire.responses import to_deletion_receipt
from groundwire.ingest.wire.schemas import parse_flat_metadata, to_flat_metadata, to_schema_entry, to_stats_message
from groundwire.kernel.identifiers import parse_collection_name
from groundwire.rpc import request_context
from groundwire.schemas import MODELS, schema_of

_DELETIONS_SHOWN = 100


@dataclass(frozen=True, slots=True)
class InspectionCalls:
    """Checks, runs and answers; the tenant is that of the current call."""

    validate_metadata: ValidateMetadata
    get_stats: GetStats
    housekeeping: Housekeeping
    deletions: Deletions

    def schema(self, request: pb.GetSchemaRequest) -> pb.GetSchemaResponse:
        """Return one schema, or all."""
        kinds = [request.doc_type] if request.doc_type else list(MODELS)
        return pb.GetSchemaResponse(schemas=[to_schema_entry(schema_of(kind)) for kind in kinds])

    def validate(self, request: pb.ValidateMetadataRequest) -> pb.ValidateMetadataResponse:
        """Check metadata and fill in defaults."""
        found = self.validate_metadata(request.doc_type, parse_flat_metadata(request.metadata))
        return pb.ValidateMetadataResponse(metadata=to_flat_metadata(found))

    def stats(self, request: pb.GetStatsRequest) -> pb.GetStatsResponse:
        """Return the figures of one collection, or of all."""
        name = parse_collection_name(request.collection) if request.collection else ""
        current = request_context.current()
        found = self.get_stats(current.tenant, name, current.budget)
        return pb.GetStatsResponse(collections=[to_stats_message(stats) for stats in found])

    def jobs(self, _request: pb.GetHousekeepingRequest) -> pb.GetHousekeepingResponse:
        """Return what runs behind the calls and what of it fails."""
        tenant = request_context.current().tenant
        failures = self.housekeeping.failures(tenant)
        return pb.GetHousekeepingResponse(
            jobs=to_job_messages(self.housekeeping.figures()),
            failures=[to_failure_message(failure) for failure in failures],
            incomplete_deletions=[
                to_deletion_receipt(each) for each in self.deletions.incomplete(tenant, _DELETIONS_SHOWN)
            ],
        )
