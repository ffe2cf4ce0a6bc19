"""Answers about an earlier position, and while documents are ingested again: they cite the generation that was read."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from groundwire.answer.evidence import Passage, Source, Statement
from groundwire.answer.settings import AnswerSettings
from groundwire.api.answer.v1 import answer_service_pb2 as pb
from groundwire.api.answer.v1 import citation_pb2, grounding_pb2
from groundwire.api.common.v1.retrieval_options_pb2 import RetrievalOptions
from groundwire.kernel.document import Document
from tests.integration.answer.conftest import MakeRig
from tests.integration.answer.rig import Rig, ScriptedGenerator, make_ask, split

QUESTION = "What do grey wolves eat?"
BEFORE, AFTER = "Grey wolves eat large deer.", "Grey wolves eat ripe berries."


@pytest.fixture(params=["in one process", "split"])
async def stub(rig: Rig, request: pytest.FixtureRequest) -> AsyncIterator[Any]:
    """A stub of answer; the collection `kept` stores replaced generations for an hour."""
    rig.library.collection = rig.library.create("kept", generation_retention=timedelta(hours=1))
    if request.param == "split":
        async with split(rig, AnswerSettings(min_support=0.1)) as stub:
            yield stub
    else:
        yield rig.stub


def _wolves(rig: Rig) -> tuple[Document, int]:
    """Return the document about wolves as it is now, in its second generation, and a position of its first."""
    first = rig.library.put("wolves.txt", [BEFORE])
    position = rig.library.retrieve("wolves", collection="kept").snapshot
    return rig.library.put("wolves.txt", [AFTER], replaces=first), position


async def test_a_question_about_a_snapshot_is_answered_from_it(rig: Rig, stub: Any) -> None:
    _, position = _wolves(rig)
    then = make_ask(QUESTION, collection="kept", options=RetrievalOptions(snapshot=position))
    answer = (await stub.Ask(then)).answer
    assert (answer.content, answer.grounded, answer.snapshot) == (f"{BEFORE} [1]", True, position)
    (citation,) = answer.citations
    assert (citation.generation, citation.quote) == (1, BEFORE)
    events = [message.event async for message in stub.AskStream(pb.AskStreamRequest(ask=then))]
    assert events[-1].final.answer.content == answer.content
    checked = await stub.VerifyCitations(pb.VerifyCitationsRequest(citations=answer.citations))
    assert checked.all_verified
    assert checked.verifications[0].quote_state == citation_pb2.QUOTE_STATE_GONE
    assert (await stub.Ask(make_ask(QUESTION, collection="kept"))).answer.content == f"{AFTER} [1]"


async def test_a_text_is_compared_with_a_snapshot(rig: Rig, stub: Any) -> None:
    _, position = _wolves(rig)
    request = pb.GroundTextRequest(collection="kept", text=BEFORE, options=RetrievalOptions(snapshot=position))
    then = await stub.GroundText(request)
    assert then.verdict == grounding_pb2.GROUNDING_VERDICT_GROUNDED
    assert [(each.generation, each.quote) for each in then.citations] == [(1, BEFORE)]
    now = await stub.GroundText(pb.GroundTextRequest(collection="kept", text=BEFORE))
    assert now.verdict == grounding_pb2.GROUNDING_VERDICT_UNGROUNDED


async def test_a_document_ingested_again_while_the_answer_is_made_is_cited_as_it_was_read(make_rig: MakeRig) -> None:
    def replace_first(passages: Sequence[Passage]) -> Sequence[Sequence[Statement]]:
        rig.library.put("wolves.txt", [AFTER], replaces=first)
        source = Source(passages[0], passages[0].span, passages[0].content)
        invented = replace(source, quote=AFTER)
        return [[Statement(AFTER, (invented,)), Statement(BEFORE, (source,))]]

    rig = make_rig(generator=ScriptedGenerator(replace_first))
    first = rig.library.put("wolves.txt", [BEFORE])
    answer = await rig.ask(QUESTION)
    assert answer.content == f"{BEFORE} [1]"
    assert answer.citations[0].generation == 1
    (checked,) = (await rig.stub.VerifyCitations(pb.VerifyCitationsRequest(citations=answer.citations))).verifications
    assert (checked.verdict, checked.generation_live) == (citation_pb2.CITATION_VERDICT_EXACT, False)
