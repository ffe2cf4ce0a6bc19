"""Collections and filters as the Qdrant client wants them."""

from typing import Any

from groundwire.kernel.errors import StoreMismatchError
from groundwire.kernel.filters import BUILT_IN_FIELDS, FieldKind
from groundwire.vectorstores.qdrant_conditions import Condition
from groundwire.vectorstores.stored_fields import TERMS_FIELD

_METRIC = "Cosine"


def checked_dimensions_of(collection: str, info: Any) -> int:
    """Return the vector length of a collection if its metric is cosine and it has the one vector that we write.

    Raises:
        StoreMismatchError: it was made by something else.
    """
    vectors = info.config.params.vectors
    if isinstance(vectors, dict) or vectors is None:
        message = f"collection {collection} has named vectors, not a single one"
        raise StoreMismatchError(message, setting="vectors", expected="unnamed", got="named")
    metric = str(getattr(vectors.distance, "value", vectors.distance))
    if metric != _METRIC:
        message = f"collection {collection} was made with metric {metric}, not {_METRIC}"
        raise StoreMismatchError(message, setting="metric", expected=_METRIC, got=metric)
    return int(vectors.size)


def missing_indexes(info: Any) -> dict[str, Any]:
    """Return the payload indexes that filters want and a collection has not got, by field.

    Servers in strict mode refuse filters on fields without one.
    """
    from qdrant_client import models  # noqa: PLC0415 - only the engine asked for

    text, integer = models.PayloadSchemaType.KEYWORD, models.PayloadSchemaType.INTEGER
    texts = {FieldKind.TEXT, FieldKind.TEXT_LIST}
    wanted = {field: text if kind in texts else integer for field, kind in BUILT_IN_FIELDS.items()}
    wanted[TERMS_FIELD] = text
    return {field: schema for field, schema in wanted.items() if field not in (info.payload_schema or {})}


def vendor_filter(condition: Condition) -> Any:
    """Return the `models.Filter` of a condition tree made by `ConditionCompiler`."""
    from qdrant_client import models  # noqa: PLC0415 - only the engine asked for

    return models.Filter.model_validate(condition)
