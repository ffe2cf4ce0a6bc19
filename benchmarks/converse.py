"""Many conversations at once: the time to the first event of an answer and to its end, and whether streams mix.

    python -m benchmarks.converse [--streams 1 10 100] [--questions 5] [--embedder URL]

Each stream asks about its own planet, one question after the other without a pause, so that with 100 streams the server
always has 100 questions to answer. Counted as mixed: a response about a question of another stream, an answer in
another session, a quote about another planet. Uses a server process of its own with a temporary data folder.
"""

import argparse
import asyncio
import time
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import grpc
import numpy as np

from benchmarks.served import server
from groundwire.api.answer.v1 import answer_service_pb2 as pb
from groundwire.api.answer.v1 import answer_service_pb2_grpc as pb_grpc
from groundwire.client import GroundwireClient

if TYPE_CHECKING:
    from groundwire.api.answer.v1.answer_service_pb2_grpc import AnswerServiceAsyncStub  # only in the type stubs

COLLECTION = "planets"


@dataclass
class Figures:
    """Of one round: seconds to the first event and to the end of each answer, and what went wrong."""

    first_s: list[float] = field(default_factory=list)
    final_s: list[float] = field(default_factory=list)
    mixed: int = 0
    failed: int = 0
    refused: int = 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, nargs="+", default=[1, 10, 100])
    parser.add_argument("--questions", type=int, default=5)
    parser.add_argument("--embedder", default="sentence-transformers:all-MiniLM-L6-v2")
    options = parser.parse_args()
    with server(["--embedder", options.embedder]) as address:
        ingest(address, max(options.streams))
        print("streams  questions/s  first event p50  p99      answer p50  p99      mixed  failed  refused")
        for count in options.streams:
            print_round(count, *asyncio.run(converse(address, count, options.questions)))


def ingest(address: str, count: int) -> None:
    with GroundwireClient(address) as client:
        client.create_collection(collection=COLLECTION)
        for number in range(count):
            text = (
                f"Planet P{number} orbits the star S{number}. Planet P{number} was found in the year {1800 + number}."
            )
            client.ingest_document(collection=COLLECTION, source_uri=f"{number}.txt", text=text)


async def converse(address: str, count: int, questions: int) -> tuple[Figures, float]:
    figures = Figures()
    async with grpc.aio.insecure_channel(address) as channel:
        stub: AnswerServiceAsyncStub = pb_grpc.AnswerServiceStub(channel)
        began = time.perf_counter()
        await asyncio.gather(*(talk(stub, number, questions, figures) for number in range(count)))
        return figures, time.perf_counter() - began


async def talk(stub: "AnswerServiceAsyncStub", number: int, questions: int, figures: Figures) -> None:
    requests: asyncio.Queue[pb.ConverseRequest | None] = asyncio.Queue()
    create = pb.CreateSessionRequest(collection=COLLECTION)
    requests.put_nowait(pb.ConverseRequest(opening=pb.ConverseOpening(create=create, end_session_on_close=True)))
    responses = aiter(stub.Converse(sent(requests)))
    session_id = (await anext(responses)).session.session_id
    for asked in range(questions):
        message_id = str(uuid.uuid4())
        question = f"Which star does planet P{number} orbit?" if asked % 2 else f"When was planet P{number} found?"
        began, has_begun = time.perf_counter(), False
        requests.put_nowait(pb.ConverseRequest(ask=pb.AskRequest(question=question, message_id=message_id)))
        async for response in responses:
            if response.HasField("heartbeat"):
                continue
            figures.mixed += response.message_id != message_id
            if not has_begun:
                figures.first_s.append(time.perf_counter() - began)
                has_begun = True
            if response.HasField("error"):
                figures.failed += 1
                break
            if response.answer_event.HasField("final"):
                figures.final_s.append(time.perf_counter() - began)
                answer = response.answer_event.final.answer
                figures.mixed += answer.session_id != session_id
                figures.mixed += any(f"P{number} " not in citation.quote for citation in answer.citations)
                figures.refused += not answer.citations
                break
    requests.put_nowait(None)
    async for _ in responses:
        pass


async def sent(requests: "asyncio.Queue[pb.ConverseRequest | None]") -> AsyncIterator[pb.ConverseRequest]:
    while (request := await requests.get()) is not None:
        yield request


def print_round(count: int, figures: Figures, seconds: float) -> None:
    first, final = (np.percentile(times, [50, 99]) * 1000 for times in (figures.first_s, figures.final_s))
    print(
        f"{count:7}  {len(figures.final_s) / seconds:11.1f}  {first[0]:12.0f} ms {first[1]:5.0f} ms"
        f"  {final[0]:7.0f} ms {final[1]:5.0f} ms  {figures.mixed:5}  {figures.failed:6}  {figures.refused:7}"
    )


if __name__ == "__main__":
    main()
