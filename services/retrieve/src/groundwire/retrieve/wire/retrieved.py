"""What a response says beyond the search itself."""

from groundwire.api.common.v1 import degraded_stage_pb2
from groundwire.api.retrieve.v1 import retrieve_report_pb2
from groundwire.api.retrieve.v1 import retrieve_service_pb2 as pb
from groundwire.retrieve.retrieve_chunks import Retrieved


def complete_response(response: pb.RetrieveResponse, retrieved: Retrieved, log_id: str | None) -> None:
    """Add what was left out, the sections that were chosen, and the log id; None means that logging failed."""
    if retrieved.self_query_failed:
        response.degraded_stages.append(degraded_stage_pb2.DEGRADED_STAGE_SELF_QUERY)
    if retrieved.result.lacks_dense:
        response.degraded_stages.append(degraded_stage_pb2.DEGRADED_STAGE_DENSE)
    if log_id is None:
        response.degraded_stages.append(degraded_stage_pb2.DEGRADED_STAGE_RECORDING)
    response.log_id = log_id or ""
    if not response.HasField("report"):
        return
    response.report.chosen_sections.extend(
        retrieve_report_pb2.ChosenSection(
            document_id=chosen.section.document_id,
            hierarchy_path=chosen.section.path,
            score=chosen.score,
            first_sequence_num=chosen.section.first,
            last_sequence_num=chosen.section.last,
        )
        for chosen in retrieved.chosen
    )
