"""Settings of the retrieve service; every field is described in docs/reference/settings.md."""

from typing import Annotated

from pydantic import Field, SecretStr, field_validator
from pydantic_settings import NoDecode, SettingsConfigDict

from groundwire.kernel.query_log import QueryLogMode
from groundwire.rpc.rag_settings import RagSettings


class RetrieveSettings(RagSettings):
    """Limits of a search, how deep it looks, and what is logged of it.

    `max_query_chars` bounds what collections may allow. `approved_source_prefixes` bounds which sources are returned,
    whatever a collection says. Collections of up to `exact_chunks` chunks are compared one by one. `pool_size` is the
    number of candidates that vectors and words bring each at first; `dense_weight`, when set, replaces the share of the
    vectors that the collection was created with. `max_terms` words of a query are looked up, and words of more than
    `max_term_share` of all chunks left out. The reranker judges the `rerank_depth` best, and `rerank_weight` is its
    share in their relevance.

    `rag_*` is about contexts: which sections they have, how many records each has at most unless a request says
    otherwise, and how relevant a part of the persona must be. These are also read under the names of the source design,
    such as RAG_TURN_TOP_K.
    """

    model_config = SettingsConfigDict(env_prefix="GROUNDWIRE_RETRIEVE_", frozen=True, extra="ignore")

    max_query_chars: int = Field(default=8192, ge=1, le=8192)
    max_top_k: int = Field(default=100, ge=1, le=1000)
    pool_size: int = Field(default=100, ge=1, le=10_000)
    exact_chunks: int = Field(default=1500, ge=0, le=10_000)
    max_terms: int = Field(default=12, ge=1, le=64)
    max_term_share: float = Field(default=0.25, gt=0, le=1)
    dense_weight: float | None = Field(default=None, ge=0, le=1)
    reranker: str = ""
    rerank_depth: int = Field(default=20, ge=2, le=100)
    rerank_weight: float = Field(default=1.0, ge=0, le=1)
    filter_cache_mib: int = Field(default=128, ge=0, le=65_536)
    chunk_cache_mib: int = Field(default=64, ge=0, le=65_536)
    query_cache_entries: int = Field(default=4096, ge=0, le=10_000_000)
    result_cache_mib: int = Field(default=64, ge=0, le=65_536)
    approved_source_prefixes: Annotated[tuple[str, ...], NoDecode] = ()
    query_log: QueryLogMode = QueryLogMode.AUTO
    self_query: str = "rules:"
    self_query_api_key: SecretStr | None = None
    self_query_timeout_s: float = Field(default=5.0, gt=0, le=300)
    query_log_days: int = Field(default=30, ge=1, le=3650)
    rag_enabled: bool = True
    rag_enable_persona: bool = True
    rag_enable_faq: bool = True
    rag_enable_memory: bool = True
    rag_enable_turn: bool = True
    rag_enable_summary: bool = True
    rag_persona_top_k: int = Field(default=2, ge=1, le=10)
    rag_faq_top_k: int = Field(default=2, ge=1, le=10)
    rag_memory_top_k: int = Field(default=3, ge=1, le=20)
    rag_turn_top_k: int = Field(default=4, ge=1, le=20)
    rag_summary_top_k: int = Field(default=2, ge=1, le=10)
    rag_persona_min_relevance: float = Field(default=0.25, ge=0, le=1)

    @property
    def context_limits(self) -> dict[str, int]:
        """Return the most records of each enabled type in a context."""
        if not self.rag_enabled:
            return {}
        kinds = ("persona", "faq", "memory", "turn", "summary")
        return {kind: getattr(self, f"rag_{kind}_top_k") for kind in kinds if getattr(self, f"rag_enable_{kind}")}

    @field_validator("approved_source_prefixes", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        """Take a comma-separated list."""
        if not isinstance(value, str):
            return value
        return tuple(prefix.strip() for prefix in value.split(",") if prefix.strip())
