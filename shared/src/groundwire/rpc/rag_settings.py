"""Settings of the source designs, which are read under their own names as well."""

import os
from typing import Any

from pydantic import model_validator
from pydantic_settings import BaseSettings


class RagSettings(BaseSettings):
    """Settings whose `rag_…` fields are also read from `RAG_…` variables.

    One with the prefix of the service, or a value that is given, comes first.
    """

    @model_validator(mode="before")
    @classmethod
    def _take_plain_names(cls, values: dict[str, Any]) -> dict[str, Any]:
        # The environment is read here, because the settings take only variables with the prefix of their service.
        names = (name for name in cls.model_fields if name.startswith("rag_") and name.upper() in os.environ)
        return {**{name: os.environ[name.upper()] for name in names}, **values}
