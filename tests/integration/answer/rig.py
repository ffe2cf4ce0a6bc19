"""The answer service over a real catalog, a real engine and the real retrieve service of the same process."""

import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import grpc

from groundwire.answer.bootstrap import build
from groundwire.answer.evidence import Passage, Statement
from groundwire.answer.ports import Generator
from groundwire.answer.settings import AnswerSettings, ChatModel
from groundwire.api.answer.v1 import answer_pb2
from groundwire.api.answer.v1 import answer_service_pb2 as pb
from groundwire.api.answer.v1 import answer_service_pb2_grpc as pb_grpc
from groundwire.api.retrieve.v1 import library_service_pb2_grpc, retrieve_service_pb2_grpc
from groundwire.rpc.channels import open_channel
from groundwire.rpc.in_process import InProcessStub
from groundwire.rpc.server import GrpcServer, ServerOptions, Service
from tests.integration.retrieve.library import Library
from tests.manual_clock import ManualClock

FOXES = [
    "Red foxes eat small mice. The red fox hunts at night.",
    "Bread is made of flour and water. A baker kneads the dough by hand.",
    "The borrow checker is a part of the compiler. It compares scopes of references.",
]
"""Three chunks about three subjects."""


@cache
def settings_with(**fields: Any) -> AnswerSettings:
    """Return settings made once: to look for each in the environment takes as long as to open a catalog."""
    return AnswerSettings(**fields)


class SettableClock(ManualClock):
    """A clock that stands still until it is set, from the beginning of a year on."""

    def __init__(self) -> None:
        super().__init__(datetime(2026, 1, 1, tzinfo=UTC))


class Rig:
    """A library and an answer service that reads it."""

    def __init__(
        self,
        folder: Path,
        *,
        settings: AnswerSettings | None = None,
        generator: Generator | None = None,
        retrieve: Any = None,
        chat_model: ChatModel | None = None,
    ) -> None:
        self.clock = SettableClock()
        self.library = Library(folder, ages=self.clock)
        self.collections: list[str] = []
        self.service = build(
            retrieve=retrieve or InProcessStub(self.library.service.servicer),
            library=InProcessStub(self.library.service.library_servicer),
            sessions=self.library.database,
            settings=settings or settings_with(min_support=0.1),
            workers=self.library.workers,
            clock=self.clock,
            generator=generator,
            chat_model=chat_model,
        )
        self.service.start()
        self.stub = InProcessStub(self.service.servicer)

    async def ask(self, question: str, **fields: Any) -> answer_pb2.Answer:
        response: pb.AskResponse = await self.stub.Ask(make_ask(question, **fields))
        return response.answer

    async def stream(self, question: str, **fields: Any) -> list[pb.AnswerEvent]:
        request = pb.AskStreamRequest(ask=make_ask(question, **fields))
        return [message.event async for message in self.stub.AskStream(request)]

    async def session(self, collection: str = "docs", **fields: Any) -> str:
        response = await self.stub.CreateSession(pb.CreateSessionRequest(collection=collection, **fields))
        session_id: str = response.session.session_id
        return session_id

    async def messages(self, session_id: str) -> Sequence[Any]:
        response = await self.stub.GetSession(pb.GetSessionRequest(session_id=session_id))
        found: Sequence[Any] = response.session.messages
        return found

    def close(self) -> None:
        self.service.close()
        self.library.close()


def make_ask(question: str, **fields: Any) -> pb.AskRequest:
    """Make a request that asks for the hits too; in a session a message id is added."""
    fields.setdefault("include_hits", True)
    if "session_id" in fields:
        fields.setdefault("message_id", str(uuid.uuid4()))
    else:
        fields.setdefault("collection", "docs")
    return pb.AskRequest(question=question, **fields)


class ScriptedGenerator:
    """Hands in what a function makes of the passages, batch by batch."""

    name = "scripted"

    def __init__(self, write: Callable[[Sequence[Passage]], Sequence[Sequence[Statement]]]) -> None:
        self._write = write
        self.closed = 0

    async def draft(
        self, question: str, passages: Sequence[Passage], strictness: float | None = None, context: str = ""
    ) -> AsyncGenerator[Sequence[Statement], None]:
        assert question
        try:
            for batch in self._write(passages):
                yield batch
        finally:
            self.closed += 1


@asynccontextmanager
async def split(rig: Rig, settings: AnswerSettings) -> AsyncIterator[Any]:
    """Run two servers over the library of a rig, answer calling retrieve through a channel; yield a stub of answer."""
    retrieve, retrieve_address = await _serve(rig.library.service.services())
    async with open_channel(retrieve_address, user_agent="answer") as to_retrieve:
        service = build(
            retrieve=retrieve_service_pb2_grpc.RetrieveServiceStub(to_retrieve),
            library=library_service_pb2_grpc.LibraryServiceStub(to_retrieve),
            sessions=rig.library.database,
            settings=settings,
            workers=rig.library.workers,
        )
        answer, address = await _serve(service.services())
        async with grpc.aio.insecure_channel(address) as channel:
            yield pb_grpc.AnswerServiceStub(channel)
        await answer.stop(0)
    await retrieve.stop(0)


async def _serve(services: list[Service]) -> tuple[GrpcServer, str]:
    server = GrpcServer(ServerOptions(listen="127.0.0.1:0"), services)
    return server, f"127.0.0.1:{await server.start()}"
