import re
import uuid

import pytest

from groundwire.kernel import identifiers
from groundwire.kernel.errors import InvalidRequestError


@pytest.mark.parametrize("name", ["a", "rust", "my-notes_2", "0", "a" * 63])
def test_a_collection_name_is_taken(name: str) -> None:
    assert identifiers.parse_collection_name(name) == name


@pytest.mark.parametrize("name", ["", "A", "-a", "a-", "a b", "a/b", "..", "ü", "a" * 64, "a\n"])
def test_a_bad_collection_name_is_refused_naming_the_field(name: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        identifiers.parse_collection_name(name)
    assert caught.value.violations[0].field == "collection"


@pytest.mark.parametrize("value", ["../x", "a/b", "a\\b", "a\x00", "a..b", "%2e%2e", "", "a" * 129, "a b"])
def test_an_id_that_could_be_a_path_is_refused(value: str) -> None:
    with pytest.raises(InvalidRequestError):
        identifiers.parse_caller_id(value, "document_id")


@pytest.mark.parametrize(
    "value", ["abc", "", "123e4567e89b42d3a456426614174000", "{123e4567-e89b-42d3-a456-426614174000}"]
)
def test_only_the_canonical_form_of_a_uuid_is_taken(value: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        identifiers.parse_uuid(value, "message_id")
    assert caught.value.violations[0].field == "message_id"


def test_a_uuid_is_lowered() -> None:
    value = str(uuid.uuid4())
    assert identifiers.parse_uuid(value.upper(), "message_id") == value


@pytest.mark.parametrize("uri", ["notes.md", "a/b c/ü.md", "https://example.com/x?y=1#z", "a..b.md", "C:\\notes\\a.md"])
def test_a_source_is_kept_exactly(uri: str) -> None:
    assert identifiers.parse_source_uri(uri) == uri


@pytest.mark.parametrize(
    "uri", ["", "  ", "../x", "a/../b", "a\\..\\b", "a\x00b", "a\nb", "a\x1bb", "a\x85b", "a\ud800b", "x" * 1025]
)
def test_a_source_that_is_no_harmless_name_is_refused(uri: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        identifiers.parse_source_uri(uri)
    assert caught.value.violations[0].field == "source_uri"


@pytest.mark.requirement("S1-56")
def test_generated_document_ids_have_the_documented_form() -> None:
    assert re.fullmatch(r"doc_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", identifiers.new_document_id())


@pytest.mark.requirement("S1-51")
def test_a_chunk_id_is_the_document_id_and_a_number_of_three_digits() -> None:
    assert identifiers.prefixed_chunk_id("doc_20241126_001", 7) == "doc_20241126_001#chunk_007"
    assert identifiers.prefixed_chunk_id("d", 1234) == "d#chunk_1234"


def test_engine_names_differ_by_tenant_collection_and_model() -> None:
    names = {
        identifiers.engine_collection_name(tenant, uid, digest)
        for tenant in ("a", "b")
        for uid in ("1", "2")
        for digest in ("x", "y")
    }
    assert len(names) == 8
    assert all(re.fullmatch(r"gw-[0-9a-f]{32}", name) for name in names)
