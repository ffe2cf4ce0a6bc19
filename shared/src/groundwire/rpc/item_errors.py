"""Errors of single items of a batch as messages."""

from groundwire.api.common.v1.item_error_pb2 import ItemError, ItemFieldViolation
from groundwire.api.common.v1.metadata_value_pb2 import MetadataValue
from groundwire.kernel.errors import GroundwireError, InvalidRequestError
from groundwire.rpc.error_status import code_of, public_text


def to_item_error(error: GroundwireError) -> ItemError:
    """Return the message of an error: the code, reason, message, facts and fields it would have alone."""
    violations = error.violations if isinstance(error, InvalidRequestError) else ()
    return ItemError(
        code=code_of(type(error)).value[0],
        reason=error.reason,
        message=public_text(error, error.message),
        metadata={key: MetadataValue(string_value=public_text(error, value)) for key, value in error.metadata.items()},
        field_violations=[
            ItemFieldViolation(field=violation.field, description=violation.description) for violation in violations
        ],
    )
