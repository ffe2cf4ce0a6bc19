"""Settings of the retrieve service; every field is described in docs/settings.md."""

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class RetrieveSettings(BaseSettings):
    """Limits of a search, and how deep it looks.

    `pool_size` is the number of candidates each leg brings; `dense_weight`, when set, replaces the
    share of the dense leg that the collection was created with.
    """

    model_config = SettingsConfigDict(env_prefix="GROUNDWIRE_RETRIEVE_", frozen=True, extra="ignore")

    max_query_chars: int = Field(default=500, ge=1, le=100_000)
    max_top_k: int = Field(default=20, ge=1, le=1000)
    pool_size: int = Field(default=100, ge=1, le=10_000)
    max_terms: int = Field(default=12, ge=1, le=64)
    max_term_share: float = Field(default=0.25, gt=0, le=1)
    dense_weight: float | None = Field(default=None, ge=0, le=1)
