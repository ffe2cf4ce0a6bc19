"""Composition root of the answer service."""

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from groundwire.answer.adapters.memory_sessions import MemorySessions, SessionsByProfile
from groundwire.answer.adapters.record_client import RecordClient, in_call_of
from groundwire.answer.adapters.retrieve_client import RetrieveClient, RetrieveLibrary
from groundwire.answer.ask import Answerer
from groundwire.answer.extractive.generator import ExtractiveGenerator
from groundwire.answer.generators.chat_endpoint import ChatEndpoint
from groundwire.answer.generators.chat_generator import ChatGenerator
from groundwire.answer.generators.chat_summaries import ChatSummaries
from groundwire.answer.ground_text import TextGrounder
from groundwire.answer.grounding.grounder import Grounder
from groundwire.answer.grounding.sentence_vectors import SentenceVectors
from groundwire.answer.ports import Generator
from groundwire.answer.recording import Outbox, Recording
from groundwire.answer.servicer import AnswerServicer
from groundwire.answer.sessions import SessionStore, SessionSweeper
from groundwire.answer.settings import AnswerSettings, ChatModel, SessionStoreName
from groundwire.answer.topics import Topics
from groundwire.api.answer.v1 import answer_service_pb2_grpc
from groundwire.kernel.clock import Clock, SystemClock
from groundwire.rpc.pagination import PageTokens
from groundwire.rpc.server import Service
from groundwire.rpc.workers import Workers

if TYPE_CHECKING:
    from groundwire.catalog.database import Database

ANSWER = "groundwire.api.answer.v1.AnswerService"
_KEY_BYTES = 32


@dataclass(frozen=True, slots=True)
class AnswerService:
    """The built service; `start` and `close` are quick and run in a worker thread."""

    servicer: AnswerServicer
    answerer: Answerer
    sweepers: Sequence[SessionSweeper]
    recording: Recording | None

    def services(self) -> list[Service]:
        return [
            Service(
                ANSWER,
                self.servicer,
                answer_service_pb2_grpc.add_AnswerServiceServicer_to_server,
                on_serving=None if self.recording is None else self.recording.start,
            ),
        ]

    def start(self) -> None:
        """Start to remove expired sessions, now and periodically."""
        for sweeper in self.sweepers:
            sweeper.start()

    def close(self) -> None:
        """Stop the timers and the recording; everything else belongs to the process."""
        if self.recording is not None:
            self.recording.close()
        for sweeper in self.sweepers:
            sweeper.close()


def build(
    *,
    retrieve: Any,
    library: Any,
    settings: AnswerSettings,
    workers: Workers,
    sessions: "Database | None",
    records: Any = None,
    purged: Callable[[str, Sequence[str]], frozenset[str]] | None = None,
    clock: Clock | None = None,
    generator: Generator | None = None,
    chat_model: ChatModel | None = None,
    signing_key: bytes | None = None,
) -> AnswerService:
    """Wire the service; `generator` None means the extractive one, which a `chat_model` falls back to.

    Args:
        retrieve: searches and embeds; the aio stub of the RetrieveService, or the `InProcessStub` of its servicer.
        library: reads what is stored; the same of the LibraryService.
        settings: of the service.
        workers: what would hold up the event loop.
        sessions: where sessions live, None for memory alone.
        records: writes what is said in conversations; the same of the RecordService. Without it, and without
            `sessions`, they are refused.
        purged: asks retrieve, blocking, which of some documents a tenant has deleted for good; given where `sessions`
            is not the catalog that has the documents.
        clock: for ages.
        generator: writes the drafts.
        chat_model: writes them instead.
        signing_key: of page tokens; without it they live as long as the process.
    """
    time = clock or SystemClock()
    reader, retriever = RetrieveLibrary(library), RetrieveClient(retrieve)
    vectors = SentenceVectors(retriever)
    store, outbox, sweepers = _session_store(settings, sessions, reader, workers, time, purged)
    grounder = Grounder(vectors, workers)
    endpoint = None
    if chat_model is not None:
        model_key = settings.generator_api_key
        endpoint = ChatEndpoint(
            chat_model.url,
            chat_model.model,
            model_key.get_secret_value() if model_key else "",
            name=chat_model.name,
            context_tokens=settings.generator_context_tokens,
            reply_tokens=settings.generator_reply_tokens,
            connect_s=settings.generator_connect_s,
            idle_s=settings.generator_idle_s,
        )
    recording = None
    if records is not None and outbox is not None:
        recording = Recording(
            outbox,
            RecordClient(records, retrieve),
            in_call_of,
            summary_every=settings.rag_summary_every_n_turns,
            consolidates=settings.consolidate,
            writer=None
            if endpoint is None
            else ChatSummaries(endpoint, grounder, timeout_s=settings.summary_timeout_s),
        )
    own = generator or ExtractiveGenerator(
        vectors=vectors, workers=workers, min_support=settings.min_support, max_excerpts=settings.max_sentences
    )
    writing: Generator = own
    if endpoint is not None:
        writing = ChatGenerator(
            endpoint, grounder, timeout_s=settings.generator_timeout_s, max_drafts=settings.max_generations
        )
    answerer = Answerer(
        retriever=retriever,
        generator=writing,
        fallback=None if endpoint is None else own,
        library=reader,
        topics=Topics(vectors),
        sessions=store,
        on_unrecorded=recording.wake if recording else lambda: None,
        clock=time,
        max_search_chars=settings.max_question_chars,
        heartbeat_s=settings.heartbeat_s,
        rag_enabled=settings.rag_enabled,
    )
    servicer = AnswerServicer(
        answerer=answerer,
        text_grounder=TextGrounder(retriever=retriever, grounder=grounder, library=reader),
        sessions=store,
        library=reader,
        recording=recording,
        workers=workers,
        clock=time,
        page_tokens=PageTokens(signing_key or secrets.token_bytes(_KEY_BYTES)),
        idle_timeout=timedelta(seconds=settings.session_idle_s),
        max_question_chars=settings.max_question_chars,
        heartbeat_s=settings.heartbeat_s,
    )
    return AnswerService(servicer, answerer, sweepers, recording)


def _session_store(
    settings: AnswerSettings,
    database: "Database | None",
    library: RetrieveLibrary,
    workers: Workers,
    clock: Clock,
    purged: Callable[[str, Sequence[str]], frozenset[str]] | None,
) -> tuple[SessionStore, Outbox | None, list[SessionSweeper]]:
    memory = MemorySessions(clock, library.purged)
    if database is None:
        return memory, None, []
    # Sessions in memory need no package of a database.
    from groundwire.answer.adapters.catalog_sessions import CatalogSessions, redact_purged  # noqa: PLC0415
    from groundwire.catalog.sessions import Sessions  # noqa: PLC0415 - the same

    rows = Sessions(database)
    # In the catalog of the documents, their deletion takes their texts out of sessions itself.
    stored = CatalogSessions(database, workers, library.purged if purged else None)
    sweepers = [SessionSweeper(rows.expire)]
    if purged is not None:
        sweepers.append(SessionSweeper(partial(redact_purged, rows, purged), settings.purged_sources_every_s))
    match settings.session_store:
        case SessionStoreName.MEMORY:
            # What was stored under another setting is still recorded and expires.
            return memory, stored, sweepers
        case SessionStoreName.CATALOG:
            return stored, stored, sweepers
        case SessionStoreName.AUTO:
            return SessionsByProfile(stored, memory, library), stored, sweepers
