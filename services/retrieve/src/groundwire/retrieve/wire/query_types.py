"""Types of queries between the contract and the kernel."""

from groundwire.api.common.v1 import search_mode_pb2
from groundwire.kernel.query_log import QueryType

QUERY_TYPES = {
    search_mode_pb2.QUERY_TYPE_CONCEPTUAL: QueryType.CONCEPTUAL,
    search_mode_pb2.QUERY_TYPE_FACTUAL: QueryType.FACTUAL,
    search_mode_pb2.QUERY_TYPE_SECTION_BASED: QueryType.SECTION_BASED,
}
QUERY_TYPE_VALUES = {kind: value for value, kind in QUERY_TYPES.items()}
