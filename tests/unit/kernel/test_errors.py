"""Errors as other processes get them, and the names of the fields in them."""

import pickle

import pytest

from groundwire.kernel.errors import (
    CollectionNotFoundError,
    FieldViolation,
    GroundwireError,
    InvalidFilterError,
    InvalidRequestError,
    fields_below,
)


@pytest.mark.parametrize(
    "error", [InvalidFilterError.of("filter", "is empty", depth=3), CollectionNotFoundError("notes")]
)
def test_an_error_is_the_same_behind_a_pipe(error: GroundwireError) -> None:
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert vars(again) == vars(error)
    assert vars(again)["metadata"]


def test_only_fields_of_a_message_are_named_below_the_field_that_holds_it() -> None:
    violations = [FieldViolation(field, "is wrong") for field in ("tags[0]", "options.filter", "part.data", "")]
    with pytest.raises(InvalidFilterError) as caught, fields_below("header", ("tags", "options", "data")):
        raise InvalidFilterError(violations)
    named = ["header.tags[0]", "header.options.filter", "part.data", ""]
    assert [each.field for each in caught.value.violations] == named
    assert str(caught.value) == caught.value.message == "; ".join(f"{field}: is wrong" for field in named)


def test_an_error_that_names_no_field_keeps_its_message() -> None:
    error = InvalidRequestError([])
    error.message = "said by a proxy"
    with pytest.raises(InvalidRequestError), fields_below("header", ("tags",)):
        raise error
    assert error.message == "said by a proxy"
