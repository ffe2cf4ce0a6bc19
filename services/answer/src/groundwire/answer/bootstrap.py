"""Composition root of the answer service."""

import secrets
from dataclasses import dataclass
from datetime import timedelta

from groundwire.answer.adapters.catalog_sessions import CatalogSessions
from groundwire.answer.adapters.catalog_texts import CatalogTexts
from groundwire.answer.adapters.extractive_generator import ExtractiveGenerator
from groundwire.answer.adapters.memory_sessions import MemorySessions
from groundwire.answer.adapters.retrieve_client import RetrieveClient, RetrieveStub
from groundwire.answer.adapters.sessions_by_profile import SessionsByProfile
from groundwire.answer.ask_in_session import AskInSession
from groundwire.answer.ask_question import AskQuestion
from groundwire.answer.create_session import CreateSession
from groundwire.answer.expire_sessions import ExpireSessions
from groundwire.answer.ports import Generator, SessionStore
from groundwire.answer.remember_request import RememberRequest
from groundwire.answer.servicer import AnswerServicer, UseCases
from groundwire.answer.settings import AnswerSettings, SessionStoreName
from groundwire.answer.verify_citations import VerifyCitations
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
    expire_sessions: ExpireSessions

    def services(self) -> list[Service]:
        """Return what a server of this process offers."""
        return [
            Service(ANSWER, self.servicer, answer_service_pb2_grpc.add_AnswerServiceServicer_to_server),
        ]

    def start(self) -> None:
        """Remove sessions that closed long ago, now and on a timer."""
        self.expire_sessions.start()

    def close(self) -> None:
        """End the timer; what else the service uses belongs to the process."""
        self.expire_sessions.close()


def build(
    *,
    catalog: Database,
    embedder: Embedder,
    retriever_stub: RetrieveStub,
    settings: AnswerSettings,
    workers: Workers,
    clock: Clock | None = None,
    generator: Generator | None = None,
) -> AnswerService:
    """Wire the service; `generator` None means the extractive one."""
    time = clock or SystemClock()
    texts = CatalogTexts(catalog, workers)
    ask_question = AskQuestion(
        retriever=RetrieveClient(retriever_stub),
        generator=generator or _extractive(embedder, workers, settings),
        texts=texts,
        collections=texts,
        clock=time,
        rag_enabled=settings.rag_enabled,
    )
    sessions = _session_store(settings, catalog, texts, workers, time)
    # Page tokens of sessions live as long as the process: after a restart a listing starts anew.
    page_tokens = PageTokens(secrets.token_bytes(_KEY_BYTES))
    servicer = AnswerServicer(
        _use_cases(ask_question, sessions, texts, settings, time), page_tokens, settings.max_question_chars
    )
    return AnswerService(servicer, ExpireSessions(Sessions(catalog, time).expire))


def _use_cases(
    ask_question: AskQuestion, sessions: SessionStore, texts: CatalogTexts, settings: AnswerSettings, clock: Clock
) -> UseCases:
    idle_timeout = timedelta(seconds=settings.session_idle_s)
    return UseCases(
        ask_question=ask_question,
        ask_in_session=AskInSession(
            sessions=sessions, ask_question=ask_question, clock=clock, max_search_chars=settings.max_question_chars
        ),
        create_session=CreateSession(sessions=sessions, collections=texts, clock=clock, idle_timeout=idle_timeout),
        sessions=sessions,
        remember=RememberRequest(sessions),
        verify_citations=VerifyCitations(texts),
    )


def _session_store(
    settings: AnswerSettings, catalog: Database, texts: CatalogTexts, workers: Workers, clock: Clock
) -> SessionStore:
    stored = CatalogSessions(catalog, workers, clock)
    memory = MemorySessions(clock, stored.gone)
    match settings.session_store:
        case SessionStoreName.MEMORY:
            return memory
        case SessionStoreName.CATALOG:
            return stored
        case SessionStoreName.AUTO:
            return SessionsByProfile(stored, memory, texts)


def _extractive(embedder: Embedder, workers: Workers, settings: AnswerSettings) -> ExtractiveGenerator:
    return ExtractiveGenerator(
        embedder=embedder,
        workers=workers,
        min_support=settings.min_support,
        max_sentences=settings.max_sentences,
    )
