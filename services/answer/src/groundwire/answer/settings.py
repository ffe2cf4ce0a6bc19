"""Settings of the answer service; every field is described in docs/reference/settings.md."""

import re
from dataclasses import dataclass
from enum import StrEnum

from pydantic import Field, SecretStr
from pydantic_settings import SettingsConfigDict

from groundwire.kernel.errors import InvalidRequestError
from groundwire.rpc.rag_settings import RagSettings

EXTRACTIVE = "extractive:"
_CHAT = re.compile(r"openai\+(?P<url>https?://[^\s/?#@]+(?:/[^\s?#@]*)?)(?:#(?P<model>\S+))?")


class SessionStoreName(StrEnum):
    """Where sessions are stored."""

    AUTO = "auto"
    CATALOG = "catalog"
    MEMORY = "memory"


class AnswerSettings(RagSettings):
    """How questions are answered and how long sessions last.

    `rag_enabled` is the master switch: off, questions are refused without a search. `min_support` is the
    support below which the extractive generator abstains (unset: its calibrated threshold), `max_sentences`
    the most sentences of its answers. Sessions expire after `session_idle_s` seconds without a question;
    the `memory` store forgets them with the process. `auto` keeps those about collections of the book profile in
    memory, and the others in the catalog. Where sessions are not in the catalog of the documents, they are looked
    through every `purged_sources_every_s` seconds for texts of documents that were deleted for good. In a conversation,
    `rag_summary_every_n_turns` exchanges make a summary, for which a chat model has `summary_timeout_s` seconds, and
    `consolidate` derives memories with each. `rag_*` are also read under the names of the source design, such as
    RAG_ENABLED.

    `generator_*` are about a chat model; times are in seconds. It has `generator_timeout_s` for an answer, and may be
    silent for `generator_idle_s`. `generator_context_tokens` is what prompt and reply may have together,
    `generator_reply_tokens` the reply alone. `max_generations` answers are written at a time.
    """

    model_config = SettingsConfigDict(env_prefix="GROUNDWIRE_ANSWER_", frozen=True, extra="ignore")

    rag_enabled: bool = True
    session_store: SessionStoreName = SessionStoreName.AUTO
    session_idle_s: float = Field(default=1800.0, gt=0, le=30 * 86_400)
    rag_summary_every_n_turns: int = Field(default=8, ge=1, le=100)
    consolidate: bool = False
    summary_timeout_s: float = Field(default=20.0, gt=0, le=30)
    max_question_chars: int = Field(default=8192, ge=1, le=100_000)
    min_support: float | None = Field(default=None, ge=0, le=1)
    max_sentences: int = Field(default=3, ge=1, le=10)
    purged_sources_every_s: float = Field(default=60.0, gt=0, le=86_400)
    heartbeat_s: float = Field(default=5.0, gt=0, le=3600)
    generator_api_key: SecretStr | None = None
    generator_connect_s: float = Field(default=3.0, gt=0, le=3600)
    generator_idle_s: float = Field(default=30.0, gt=0, le=3600)
    generator_timeout_s: float = Field(default=60.0, gt=0, le=3600)
    generator_context_tokens: int = Field(default=4096, ge=512, le=10_000_000)
    generator_reply_tokens: int = Field(default=512, ge=16, le=100_000)
    max_generations: int = Field(default=8, ge=1, le=1000)


@dataclass(frozen=True, slots=True)
class ChatModel:
    """A model behind an endpoint: the URL of its API, and its name, which may be empty."""

    url: str
    model: str

    @property
    def name(self) -> str:
        return self.model or "openai"


def parse_generator(setting: str) -> ChatModel | None:
    """Return the model of `openai+http(s)://HOST[:PORT]/PATH#MODEL`, None for `extractive:`.

    Raises:
        InvalidRequestError: it is of another form; one with a password or a key in it is not repeated.
    """
    if setting == EXTRACTIVE:
        return None
    found = _CHAT.fullmatch(setting)
    if found is None:
        form = "must be 'extractive:' or 'openai+http(s)://HOST/v1#MODEL', without user, password or query"
        raise InvalidRequestError.of("generator", f"{form}; a key is GROUNDWIRE_ANSWER_GENERATOR_API_KEY")
    return ChatModel(found["url"], found["model"] or "")
