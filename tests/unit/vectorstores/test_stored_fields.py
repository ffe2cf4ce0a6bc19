"""What engines store beside a vector."""

from groundwire.kernel.filters import Scalar
from groundwire.vectorstores.stored_fields import presence_term, stored_fields, value_term


def test_built_in_fields_keep_their_names_and_values() -> None:
    assert stored_fields({"chapter": "One", "level": 2, "tags": ("a", "b")}) == {
        "chapter": "One",
        "level": 2,
        "tags": ["a", "b"],
    }


def test_fields_of_the_caller_become_terms() -> None:
    stored = stored_fields({"size": 5, "labels": ("x", "y")})
    assert set(stored) == {"terms"}
    assert set(stored["terms"]) == {'["size"]', '["size", 5]', '["labels"]', '["labels", "x"]', '["labels", "y"]'}  # type: ignore[arg-type] # it is a list


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
