"""Settings of the answer service; every field is described in docs/reference/settings.md."""

from enum import StrEnum

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class SessionStoreName(StrEnum):
    """Where sessions live."""

    AUTO = "auto"
    CATALOG = "catalog"
    MEMORY = "memory"


class AnswerSettings(BaseSettings):
    """How questions are answered and how long sessions last.

    `rag_enabled` is the master switch: off, questions are refused without a search. `min_support` is the
    support below which the extractive generator abstains (unset: its calibrated threshold), `max_sentences`
    the most sentences of its answers. Sessions expire after `session_idle_s` seconds without a question;
    the `memory` store forgets them with the process. `auto` keeps those about collections of the book profile in
    memory, and the others in the catalog.
    """

    model_config = SettingsConfigDict(env_prefix="GROUNDWIRE_ANSWER_", frozen=True, extra="ignore")

    rag_enabled: bool = True
    session_store: SessionStoreName = SessionStoreName.AUTO
    session_idle_s: float = Field(default=1800.0, gt=0, le=30 * 86_400)
    max_question_chars: int = Field(default=8192, ge=1, le=100_000)
    min_support: float | None = Field(default=None, ge=0, le=1)
    max_sentences: int = Field(default=3, ge=1, le=10)
