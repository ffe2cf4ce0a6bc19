"""Settings of the source designs, which are read under their own names as well."""

import os
from collections.abc import Iterable, Mapping
from typing import Any, Final

_PREFIX: Final = "rag_"


def with_plain_names(fields: Iterable[str], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of settings with those of `RAG_…` variables for `rag_…` fields that have none."""
    # The environment is read here, because the settings take only variables with the prefix of their service.
    names = (name for name in fields if name.startswith(_PREFIX) and name.upper() in os.environ)
    return {**{name: os.environ[name.upper()] for name in names}, **values}
