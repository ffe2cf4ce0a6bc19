"""Metadata as messages."""

from collections.abc import Mapping, Sequence

from groundwire.api.common.v1 import metadata_value_pb2
from groundwire.kernel.filters import Scalar, Value


def to_metadata(metadata: Mapping[str, Value]) -> dict[str, metadata_value_pb2.MetadataValue]:
    """Return the messages of metadata by key."""
    return {key: to_value(value) for key, value in metadata.items()}


def to_value(value: Value) -> metadata_value_pb2.MetadataValue:
    """Return the message of one value; a list of whole numbers and others is one of doubles."""
    match value:
        case bool():
            return metadata_value_pb2.MetadataValue(bool_value=value)
        case int():
            return metadata_value_pb2.MetadataValue(int64_value=value)
        case float():
            return metadata_value_pb2.MetadataValue(double_value=value)
        case str():
            return metadata_value_pb2.MetadataValue(string_value=value)
        case _:
            return _to_list(value)


def _to_list(values: Sequence[Scalar]) -> metadata_value_pb2.MetadataValue:
    texts = [value for value in values if isinstance(value, str)]
    truths = [value for value in values if isinstance(value, bool)]
    numbers = [value for value in values if isinstance(value, int) and not isinstance(value, bool)]
    if len(texts) == len(values):
        return metadata_value_pb2.MetadataValue(string_list=metadata_value_pb2.StringList(values=texts))
    if len(truths) == len(values):
        return metadata_value_pb2.MetadataValue(bool_list=metadata_value_pb2.BoolList(values=truths))
    if len(numbers) == len(values):
        return metadata_value_pb2.MetadataValue(int64_list=metadata_value_pb2.Int64List(values=numbers))
    doubles = [float(value) for value in values]
    return metadata_value_pb2.MetadataValue(double_list=metadata_value_pb2.DoubleList(values=doubles))
