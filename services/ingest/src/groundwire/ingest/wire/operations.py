"""Translate between long work on stores and the messages of the contract."""

from groundwire.api.ingest.v1 import ingest_service_pb2 as pb
from groundwire.ingest.domain.operating import IndexBuilt
from groundwire.ingest.wire.collections import to_identity_message


def to_index_build_result(built: IndexBuilt) -> pb.IndexBuildResult:
    """Return the message of what a new index holds."""
    return pb.IndexBuildResult(
        vector_count=built.vectors,
        embedded_count=built.embedded,
        embedding=to_identity_message(built.identity),
    )
