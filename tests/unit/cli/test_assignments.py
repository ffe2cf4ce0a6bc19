"""What `--set` and `--unset` make of names and values."""

import re

import pytest

from groundwire.api.common.v1.document_pb2 import DocumentFields
from groundwire.api.common.v1.record_pb2 import Record
from groundwire.api.ingest.v1.collection_pb2 import CHUNKER_SENTENCE, FIELD_TYPE_STRING, CollectionSettings
from groundwire.cli.fields import assign, field_paths
from groundwire.kernel.errors import InvalidRequestError
from groundwire.kernel.filters import ALIASES


def test_texts_stay_as_they_are_and_lists_grow() -> None:
    fields = DocumentFields()
    given = ["title=1984", "author=Doe, Jane", "creators=Roe", "tags=a, b", "tags=c", 'subjects=["x", "y"]']
    mask = assign(fields, given, (), ALIASES)
    assert fields.title == "1984"
    assert list(fields.creators) == ["Doe, Jane", "Roe"]
    assert list(fields.tags) == ["a", "b", "c"]
    assert list(fields.subjects) == ["x", "y"]
    assert list(mask.paths) == ["title", "creators", "tags", "subjects"]


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("2024", "int64_value", 2024),
        ("0.5", "double_value", 0.5),
        ("true", "bool_value", True),
        ("legal", "string_value", "legal"),
        ('"007"', "string_value", "007"),
        ("007", "string_value", "007"),
        ("2024-05-01", "string_value", "2024-05-01"),
        ("NaN", "string_value", "NaN"),
        ("[" * 100_000, "string_value", "[" * 100_000),
        ("a=b", "string_value", "a=b"),
    ],
)
def test_metadata_has_the_type_it_is_written_in(text: str, kind: str, value: object) -> None:
    fields = DocumentFields()
    mask = assign(fields, [f"metadata.k.x={text}"], ())
    assert list(mask.paths) == ["metadata.k.x"]
    assert fields.metadata["k.x"].WhichOneof("value") == kind
    assert getattr(fields.metadata["k.x"], kind) == value


def test_lists_of_whole_and_broken_numbers_are_lists_of_numbers() -> None:
    fields = DocumentFields()
    assign(fields, ["metadata.a=[1, 2.5]", "metadata.b=[true]", 'metadata.c=["x"]', "metadata.d=[1]"], ())
    assert list(fields.metadata["a"].double_list.values) == [1.0, 2.5]
    assert list(fields.metadata["b"].bool_list.values) == [True]
    assert list(fields.metadata["c"].string_list.values) == ["x"]
    assert list(fields.metadata["d"].int64_list.values) == [1]


@pytest.mark.parametrize("text", ["null", "{}", "[]", '[1, "a"]', "[true, 1]", "[[1]]", "9223372036854775808"])
def test_what_metadata_cannot_hold_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequestError, match=r"metadata\.k"):
        assign(DocumentFields(), [f"metadata.k={text}"], ())


@pytest.mark.parametrize(
    ("text", "shown"),
    [("2026-02-10", "2026-02-10T00:00:00Z"), ("2026-02-10T14:00:00+02:00", "2026-02-10T12:00:00Z")],
)
def test_times_are_dates_or_have_an_offset(text: str, shown: str) -> None:
    fields = DocumentFields()
    assign(fields, [f"date={text}"], (), ALIASES)
    assert fields.date_created.ToJsonString() == shown
    with pytest.raises(InvalidRequestError, match="offset"):
        assign(fields, ["date=2026-02-10T14:00:00"], (), ALIASES)


def test_settings_are_named_by_their_paths() -> None:
    settings = CollectionSettings()
    field = '[{"name": "d", "description": "Department", "type": "string", "allowed_values": ["hr"]}]'
    given = [
        *("chunking.chunker=sentence", "retrieval.top_k=7", "retrieval.min_relevance=0.25", "limits.require_url=yes"),
        *("generation_retention=30d", "approved_source_prefixes=a,b", f"field_descriptions={field}"),
    ]
    mask = assign(settings, given, ["chunking.target_size", "limits"])
    assert settings.chunking.chunker == CHUNKER_SENTENCE
    assert (settings.retrieval.top_k, settings.retrieval.min_relevance) == (7, 0.25)
    assert settings.limits.require_url
    assert settings.generation_retention.seconds == 30 * 86_400
    assign(settings, ["generation_retention=3652500d"], ())
    assert settings.generation_retention.seconds == 3_652_500 * 86_400  # the 10,000 years that a message can hold
    assert list(settings.approved_source_prefixes) == ["a,b"]
    assert settings.field_descriptions[0].type == FIELD_TYPE_STRING
    assert list(mask.paths)[-2:] == ["chunking.target_size", "limits"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("chunking.chunker=foo", "one of structure, sentence, hierarchy, fixed"),
        ("chunking.chunker=unspecified", "one of structure"),
        ("retrieval.top_k=1.5", "whole number"),
        ("chunking.target_size=3000000000", "between -2147483648 and 2147483647"),
        ("retrieval.min_relevance=high", "must be a number"),
        ("limits.require_url=maybe", "true or false"),
        ("generation_retention=30", "with a unit"),
        ("generation_retention=99999999999999d", "10,000 years"),
        ("field_descriptions=x", "JSON list"),
        ("field_descriptions=[1]", "must be an object"),
        ('field_descriptions=[{"nam": "d"}]', "has no 'nam'; there are name"),
        ("field_descriptions=[", "not a list"),
        ("chunking=1", "not a field to set"),
        ("chunking.chunker.x=1", "not a field to set"),
        ("top_k=1", r"there are chunking\.unit"),
        ("", "NAME=VALUE"),
        ("top_k", "NAME=VALUE"),
    ],
)
def test_each_wrong_setting_is_named_with_what_is_right(given: str, said: str) -> None:
    with pytest.raises(InvalidRequestError, match=said):
        assign(CollectionSettings(), [given], ())


def test_all_mistakes_are_told_at_once() -> None:
    with pytest.raises(InvalidRequestError) as caught:
        assign(DocumentFields(), ["titel=x", "language=en", "language=de", "title"], ["language", "author"])
    assert [each.field for each in caught.value.violations] == ["titel", "language", "--set", "language", "author"]


@pytest.mark.parametrize(
    ("given", "cleared", "said"),
    [
        (["metadata.=x"], [], "metadata.: is not a field to set"),
        # Else `--unset metadata.$KEY` would remove all keys where the variable is empty.
        ([], ["metadata."], "metadata.: is not a field to set"),
        (["tags=" + "[" * 100_000], [], "tags: is not a list of its elements"),
    ],
)
def test_a_key_without_a_name_and_a_list_without_an_end_are_refused(
    given: list[str], cleared: list[str], said: str
) -> None:
    with pytest.raises(InvalidRequestError, match=re.escape(said)):
        assign(DocumentFields(), given, cleared)


def test_nothing_to_change_is_a_mistake() -> None:
    with pytest.raises(InvalidRequestError, match="--set NAME=VALUE"):
        assign(DocumentFields(), (), ())


def test_every_path_can_be_cleared_but_nothing_else() -> None:
    known = [path.replace("KEY", "k") for path in field_paths(CollectionSettings()) + field_paths(DocumentFields())]
    assert {"retrieval.top_k", "metadata.k", "generation_retention", "field_descriptions"} <= set(known)
    assert list(assign(DocumentFields(), (), ["metadata", "metadata.k", "title"]).paths) == [
        *("metadata", "metadata.k", "title")
    ]
    with pytest.raises(InvalidRequestError, match="not a field to set"):
        assign(DocumentFields(), (), ["*"])


def test_what_the_server_sets_is_no_field_to_set_and_of_several_types_one_is_named() -> None:
    record = Record()
    record.persona.SetInParent()
    paths = field_paths(record)
    assert {"text", "scope", "persona.version", "metadata.KEY"} <= {*paths}
    assert not any(path.startswith(("memory.", "links.", "access_count", "create_time")) for path in paths)
    with pytest.raises(InvalidRequestError, match="access_count: is not a field to set"):
        assign(record, ["access_count=9"], ())
