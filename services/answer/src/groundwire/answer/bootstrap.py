"""Composition root of the answer service."""

import secrets
from dataclasses import dataclass
from datetime import timedelta

from groundwire.answer.adapters.catalog_library import CatalogLibrary
from groundwire.answer.adapters.catalog_sessions import CatalogSessions
from groundwire.answer.adapters.memory_sessions import MemorySessions, SessionsByProfile
from groundwire.answer.adapters.retrieve_client import RetrieveClient, RetrieveStub
from groundwire.answer.ask import Answerer
from groundwire.answer.extractive.generator import ExtractiveGenerator
from groundwire.answer.generators.chat_endpoint import ChatEndpoint
from groundwire.answer.generators.chat_generator import ChatGenerator
from groundwire.answer.ground_text import TextGrounder
from groundwire.answer.grounding.grounder import Grounder
from groundwire.answer.grounding.sentence_vectors import SentenceVectors
from groundwire.answer.ports import Generator
from groundwire.answer.servicer import AnswerServicer
from groundwire.answer.sessions import SessionStore, SessionSweeper
from groundwire.answer.settings import AnswerSettings, ChatModel, SessionStoreName
from groundwire.api.answer.v1 import answer_service_pb2_grpc
from groundwire.catalog.database import Database
from groundwire.catalog.sessions import Sessions
from groundwire.kernel.clock import Clock, SystemClock
from groundwire.kernel.embedder import Embedder
from groundwire.rpc.pagination import PageTokens
from groundwire.rpc.server import Service
from groundwire.rpc.workers import Workers

ANSWER = "groundwire.api.answer.v1.AnswerService"
_KEY_BYTES = 32


@dataclass(frozen=True, slots=True)
class AnswerService:
    """The built service; `start` and `close` are quick and are called from a worker thread."""

    servicer: AnswerServicer
    answerer: Answerer
    sweeper: SessionSweeper

    def services(self) -> list[Service]:
        """Return what a server of this process offers."""
        return [
            Service(ANSWER, self.servicer, answer_service_pb2_grpc.add_AnswerServiceServicer_to_server),
        ]

    def start(self) -> None:
        """Remove sessions that closed long ago, now and on a timer."""
        self.sweeper.start()

    def close(self) -> None:
        """End the timer; what else the service uses belongs to the process."""
        self.sweeper.close()


def build(
    *,
    catalog: Database,
    embedder: Embedder,
    retriever_stub: RetrieveStub,
    settings: AnswerSettings,
    workers: Workers,
    clock: Clock | None = None,
    generator: Generator | None = None,
    chat_model: ChatModel | None = None,
) -> AnswerService:
    """Wire the service; `generator` None means the extractive one, which a `chat_model` falls back to."""
    time = clock or SystemClock()
    library = CatalogLibrary(catalog, workers)
    sessions = _session_store(settings, catalog, library, workers, time)
    retriever, grounder = RetrieveClient(retriever_stub), Grounder(SentenceVectors(embedder), workers)
    own = generator or ExtractiveGenerator(
        embedder=embedder,
        workers=workers,
        min_support=settings.min_support,
        max_excerpts=settings.max_sentences,
    )
    answerer = Answerer(
        retriever=retriever,
        generator=own if chat_model is None else _chat_generator(chat_model, settings, grounder),
        fallback=None if chat_model is None else own,
        library=library,
        sessions=sessions,
        clock=time,
        max_search_chars=settings.max_question_chars,
        heartbeat_s=settings.heartbeat_s,
        rag_enabled=settings.rag_enabled,
    )
    servicer = AnswerServicer(
        answerer=answerer,
        text_grounder=TextGrounder(retriever=retriever, grounder=grounder, library=library),
        sessions=sessions,
        library=library,
        workers=workers,
        clock=time,
        # Page tokens of sessions live as long as the process: after a restart a listing starts anew.
        page_tokens=PageTokens(secrets.token_bytes(_KEY_BYTES)),
        idle_timeout=timedelta(seconds=settings.session_idle_s),
        max_question_chars=settings.max_question_chars,
        heartbeat_s=settings.heartbeat_s,
    )
    return AnswerService(servicer, answerer, SessionSweeper(Sessions(catalog, time).expire))


def _chat_generator(model: ChatModel, settings: AnswerSettings, grounder: Grounder) -> ChatGenerator:
    key = settings.generator_api_key
    endpoint = ChatEndpoint(
        model.url,
        model.model,
        key.get_secret_value() if key else "",
        connect_s=settings.generator_connect_s,
        idle_s=settings.generator_idle_s,
    )
    return ChatGenerator(
        model.name,
        endpoint,
        grounder,
        context_tokens=settings.generator_context_tokens,
        max_tokens=settings.generator_reply_tokens,
        timeout_s=settings.generator_timeout_s,
        max_drafts=settings.max_generations,
    )


def _session_store(
    settings: AnswerSettings, catalog: Database, library: CatalogLibrary, workers: Workers, clock: Clock
) -> SessionStore:
    stored = CatalogSessions(catalog, workers, clock)
    memory = MemorySessions(clock, stored.gone)
    match settings.session_store:
        case SessionStoreName.MEMORY:
            return memory
        case SessionStoreName.CATALOG:
            return stored
        case SessionStoreName.AUTO:
            return SessionsByProfile(stored, memory, library)
