"""Schemas of documents and chunks."""

from typing import Any, get_args

import pytest
from pydantic import ValidationError

from groundwire.kernel.document import DocumentFormat
from groundwire.schemas import ChunkMetadata, DocumentMetadata, validate_metadata


def _refused(model: type[DocumentMetadata] | type[ChunkMetadata], **fields: Any) -> dict[str, str]:
    given = {key: value for key, value in {**model.EXAMPLE, **fields}.items() if value is not ...}
    with pytest.raises(ValidationError) as refused:
        model.model_validate(given)
    return {str(error["loc"][0]): error["msg"] for error in refused.value.errors()}


def test_a_hash_is_64_hexadecimal_digits_in_lower_case() -> None:
    upper = {**DocumentMetadata.EXAMPLE, "source_hash": "A" * 64}
    assert validate_metadata("document", upper)["source_hash"] == "a" * 64
    for wrong in ("a" * 63, "z" * 64, "a" * 65, 1, ...):
        assert "source_hash" in _refused(DocumentMetadata, source_hash=wrong)


@pytest.mark.requirement("T34")
def test_defaults_of_a_document_are_filled_in() -> None:
    needed = {key: DocumentMetadata.EXAMPLE[key] for key in DocumentMetadata.REQUIRED}
    found = validate_metadata("document", needed)
    assert (found["language"], found["creator"], found["subject"], found["tags"]) == ("en", [], [], [])
    assert found["ingestion_date"].endswith("Z")
    assert not {"title", "project", "date_created", "custom"} & found.keys()
    assert "creator" in _refused(DocumentMetadata, creator=None)


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("doc_id", ...),
        ("doc_id", "a b"),
        ("source_path", ...),
        ("source_path", "a/../b"),
        ("date_created", "yesterday"),
        ("date_created", "2024-10-15"),
        ("doc_type", "odt"),
        ("language", "english"),
        ("language", "zz"),
        ("chunk_count", -1),
        ("chunk_count", "3"),
        ("total_chars", -1),
        ("embedding_model", ...),
        ("embedding_model", " "),
        ("title", "x" * 1025),
        ("tags", ["a,b"]),
        ("other", 1),
    ],
)
def test_a_bad_field_of_a_document_is_named(field: str, wrong: Any) -> None:
    assert set(_refused(DocumentMetadata, **{field: wrong})) == {field}


def test_the_formats_are_those_that_can_be_read() -> None:
    formats = get_args(DocumentMetadata.model_fields["doc_type"].annotation)
    assert set(formats) == {document_format.value for document_format in DocumentFormat}


@pytest.mark.parametrize(
    ("field", "wrong", "message"),
    [
        ("sequence_num", -1, "0"),
        ("char_end", 2450, "2450"),
        ("content", "          ", "blank"),
        ("content", "too short", "10"),
        ("content_hash", "b" * 64, "content"),
        ("content_hash", "b" * 63, "64"),
        ("page_numbers", [6, 5], "page 5 follows page 6"),
        ("page_numbers", [5, 7], "page 7 follows page 5"),
        ("page_numbers", [0], "1"),
        ("overlap_prev_chars", -1, "0"),
        ("embedding_timestamp", "2024-11-26T10:30:00", "offset"),
    ],
)
def test_a_bad_field_of_a_chunk_is_named_with_the_reason(field: str, wrong: Any, message: str) -> None:
    assert message in _refused(ChunkMetadata, **{field: wrong})[field]


@pytest.mark.parametrize("start", [0, 2450])
@pytest.mark.parametrize(("difference", "fits"), [(5, True), (-5, True), (6, False), (-6, False)])
def test_the_range_of_a_chunk_may_differ_from_its_content_by_five(start: int, difference: int, fits: bool) -> None:
    length = len(ChunkMetadata.EXAMPLE["content"])
    place = {"char_start": start, "char_end": start + length + difference}
    if fits:
        assert ChunkMetadata.model_validate({**ChunkMetadata.EXAMPLE, **place}).char_start == start
    else:
        message = _refused(ChunkMetadata, **place)["content"]
        assert str(length) in message
        assert str(length + difference) in message
