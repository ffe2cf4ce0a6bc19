"""What engines store beside a vector."""

import pytest

from groundwire.kernel.chunk import same_filter_keys
from groundwire.kernel.filters import Payload, Scalar
from groundwire.vectorstores.stored_fields import presence_term, restored_payload, stored_fields, value_term


def test_built_in_fields_keep_their_names_and_values() -> None:
    assert stored_fields({"chapter": "One", "level": 2, "tags": ("a", "b")}) == {
        "chapter": "One",
        "level": 2,
        "tags": ["a", "b"],
    }


def test_fields_of_the_caller_become_terms() -> None:
    stored = stored_fields({"size": 5, "labels": ("x", "y"), "place": "Köln"})
    assert set(stored) == {"terms"}
    assert sorted(stored["terms"]) == [  # type: ignore[arg-type] # it is a list
        '["labels", "x"]',
        '["labels", "y"]',
        '["labels"]',
        '["place", "Köln"]',
        '["place"]',
        '["size", 5]',
        '["size"]',
    ]


@pytest.mark.parametrize(
    "payload",
    [
        {"chapter": "One", "level": 2, "tags": ("a", "b")},
        {"title": "Tides", "size": 5, "is_new": True, "labels": ("x", "y", "x"), "one": (1.5,), "none": ()},
    ],
    ids=["built in", "own"],
)
def test_what_is_stored_is_read_as_the_same_keys(payload: Payload) -> None:
    assert same_filter_keys(restored_payload(stored_fields(payload)), payload)


def test_an_empty_payload_stores_nothing() -> None:
    assert stored_fields({}) == {}


def test_terms_are_equal_exactly_when_values_are() -> None:
    assert value_term("x", 5) == value_term("x", 5.0)
    assert value_term("x", 10**300) != value_term("x", 1e300)
    assert value_term("x", 2**53 + 1) != value_term("x", float(2**53))
    distinct: list[Scalar] = [1, True, "1", "true", "1.0", 1.5, "", 0, False, 2**62, 2**62 + 1]
    assert len({value_term("x", value) for value in distinct}) == len(distinct)


def test_terms_of_different_fields_never_meet() -> None:
    assert value_term('a", "b', "c") != value_term("a", 'b", "c')
    assert presence_term("x") != value_term("x", "")
