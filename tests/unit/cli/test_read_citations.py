"""What `groundwire cite` reads from a file that anybody may have changed."""

import json
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from groundwire.api.answer.v1.answer_pb2 import Answer
from groundwire.api.answer.v1.citation_pb2 import Citation
from groundwire.api.common.v1.span_pb2 import Span
from groundwire.cli.citations import read_citations
from groundwire.cli.messages import answer_json
from groundwire.kernel.errors import InvalidRequestError

_PLACE = {"start": 0, "end": 5, "start_byte": 0, "end_byte": 5}
_CITATION = {"document_id": "doc", "generation": 1, "quote": "Water", **_PLACE}


def test_a_citation_is_read_with_all_its_creators() -> None:
    (citation,) = read_citations({"citations": [{**_CITATION, "creators": ["Ada Lovelace", "Alan Turing"]}]}, "file")
    assert list(citation.creators) == ["Ada Lovelace", "Alan Turing"]


def test_what_ask_prints_of_a_citation_is_read_again() -> None:
    citation = Citation(
        marker=3,
        document_id="doc",
        source_uri="tides.md",
        generation=2,
        chunk_id="doc#chunk_001",
        quote="Water",
        span=Span(start=1, end=6, start_byte=2, end_byte=7),
        relevance_score=0.5,
        chapter="Sea",
        section="1.2",
        page_numbers=[3, 4],
        title="Tides",
        creators=["Ada Lovelace"],
        date_created=Timestamp(seconds=1_700_000_000),
        doi="10.1/x",
        url="https://example.org",
    )
    printed = json.loads(json.dumps(answer_json(Answer(citations=[citation]), "")))
    assert read_citations(printed, "file") == [citation]


@pytest.mark.parametrize("creators", ["Ada Lovelace", {"Ada": 1}, ["Ada", 1], 7])
def test_creators_that_are_no_list_of_texts_are_refused_by_name(creators: Any) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        read_citations({"citations": [{**_CITATION, "creators": creators}]}, "file")
    assert "citations[0].creators" in caught.value.message


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("date_created", "0001-01-01T00:00:00+14:00"),
        ("date_created", "yesterday"),
        ("date_created", 5),
        ("generation", "one"),
        ("page_numbers", "12"),
        ("title", ["Water"]),
    ],
)
def test_values_of_other_types_or_beyond_their_range_are_refused(name: str, value: Any) -> None:
    with pytest.raises(InvalidRequestError, match="wrong type"):
        read_citations({"citations": [{**_CITATION, name: value}]}, "file")
