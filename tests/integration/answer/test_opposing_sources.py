"""An answer names what contradicts it among what was found, and nothing that only sounds like it."""

import uuid
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from google.protobuf.duration_pb2 import Duration

from groundwire.answer.evidence import OpposingSource, Passage, Source, Statement
from groundwire.answer.settings import SessionStoreName
from groundwire.api.answer.v1 import answer_pb2, citation_pb2, grounding_pb2
from groundwire.api.answer.v1 import answer_service_pb2 as pb
from groundwire.api.common.v1 import retrieval_options_pb2
from groundwire.kernel.document import DocumentFields
from groundwire.kernel.facts import Discrepancy, FactKind
from groundwire.kernel.identifiers import DEFAULT_TENANT
from tests.integration.answer.conftest import MakeRig
from tests.integration.answer.rig import Rig, ScriptedGenerator, settings_with

QUESTION = "How long is the bridge over the river?"
OLD = "The bridge over the river is 240 metres long."
NEW = "The bridge over the river is 260 metres long."


def _dated(year: int) -> DocumentFields:
    return DocumentFields(date_created=datetime(year, 5, 1, tzinfo=UTC))


def _opposing(answer: answer_pb2.Answer) -> list[citation_pb2.Citation]:
    cited = [*answer.citations, *answer.opposing_citations]
    assert [each.marker for each in cited] == list(range(1, len(cited) + 1))
    return [cited[each.marker - 1] for claim in answer.claims for each in claim.opposing]


async def test_what_contradicts_an_answer_is_quoted_with_its_date(rig: Rig) -> None:
    rig.library.put("old.txt", [OLD], fields=_dated(2020))
    rig.library.put("new.txt", [NEW], fields=_dated(2024))
    answer = await rig.ask(QUESTION)
    assert answer.content == f"{NEW} [1]"
    (claim,), (opposing,) = answer.claims, _opposing(answer)
    found = claim.opposing[0].discrepancy
    assert (found.kind, found.text, found.instead) == (grounding_pb2.FACT_KIND_NUMBER, "260", "240")
    assert (opposing.quote, opposing.source_uri, opposing.date_created.ToDatetime().year) == (OLD, "old.txt", 2020)
    assert list(opposing.answer_spans) == [claim.answer_span]
    assert [each.quote for each in answer.citations] == [NEW]
    verified = await rig.stub.VerifyCitations(pb.VerifyCitationsRequest(citations=answer.opposing_citations))
    assert verified.all_verified
    alone = await rig.ask(QUESTION, options=retrieval_options_pb2.RetrievalOptions(top_k=1))
    assert (alone.content, _opposing(alone)) == (answer.content, [])
    events = await rig.stream(QUESTION)
    assert events[-1].final.answer.opposing_citations == answer.opposing_citations
    assert [each.citation.citation for each in events if each.HasField("citation")] == list(answer.citations)


async def test_of_several_the_newest_comes_first(rig: Rig) -> None:
    rig.library.put("new.txt", [NEW], fields=_dated(2024))
    for year, length in ((2019, 230), (2021, 250), (2020, 240)):
        rig.library.put(f"{year}.txt", [OLD.replace("240", str(length))], fields=_dated(year))
    answer = await rig.ask(QUESTION, options=retrieval_options_pb2.RetrievalOptions(top_k=10))
    assert answer.content.startswith(NEW)
    assert [each.source_uri for each in _opposing(answer)] == ["2021.txt", "2020.txt", "2019.txt"]


async def test_statements_of_one_answer_oppose_one_another_by_their_own_markers(make_rig: MakeRig) -> None:
    def write(passages: Sequence[Passage]) -> Sequence[Sequence[Statement]]:
        sources = [Source(each, each.span, each.content) for each in sorted(passages, key=lambda each: each.source_uri)]
        old, new, newest = (each for each in sources if "bridge" in each.quote)
        facts = Discrepancy(FactKind.NUMBER, "240", "260")
        against = [tuple(OpposingSource(each, facts) for each in others) for others in ((new, newest), (old, newest))]
        return [[Statement(each.quote, (each,), opposing=by) for each, by in zip((old, new), against, strict=True)]]

    rig = make_rig(generator=ScriptedGenerator(write))
    for number, text in enumerate((OLD, NEW, "The bridge over the river is 270 metres long.")):
        rig.library.put(f"{number}.txt", [text])
    answer = await rig.ask(QUESTION)
    assert answer.content == f"{OLD} [1] {NEW} [2]"
    assert [[each.marker for each in claim.opposing] for claim in answer.claims] == [[2, 3], [1, 3]]
    assert [each.marker for each in answer.opposing_citations] == [3]
    assert [each.answer_spans for each in answer.citations] == [[each.answer_span] for each in answer.claims]
    assert list(answer.opposing_citations[0].answer_spans) == [each.answer_span for each in answer.claims]


@pytest.mark.parametrize(
    ("text", "contradicts"),
    [
        ("The ferry does not run at night.", True),
        ("The ferry runs at night.", False),
        ("The ferry does not run at night when the wind is so strong that the harbour is closed to all.", False),
        ("The ferry of the island does not take bicycles.", False),
    ],
)
async def test_a_denial_is_one_of_the_whole_sentence(rig: Rig, text: str, *, contradicts: bool) -> None:
    rig.library.put("a.txt", ["The ferry runs at night."])
    rig.library.put("b.txt", [text])
    answer = await rig.ask("Does the ferry run at night?")
    assert answer.grounded
    assert bool(_opposing(answer)) is contradicts


@pytest.mark.parametrize(
    ("question", "texts"),
    [
        ("When does the Paris office close?", ["The Paris office closes at 18:00.", "Our office closes at 17:00."]),
        ("When does the office close?", ["The office closes at 18:00. On Mondays the office closes at 17:00."]),
        ("When was Ada Lovelace born?", ["Ada Lovelace was born in 1815.", "Grace Hopper was born in 1906."]),
        ("Who built the bridge?", ["The bridge was built by Ada.", "The bridge was built by Grace."]),
    ],
)
async def test_what_is_about_something_else_contradicts_nothing(rig: Rig, question: str, texts: list[str]) -> None:
    for number, text in enumerate(texts):
        rig.library.put(f"{number}.txt", [text])
    answer = await rig.ask(question)
    assert answer.grounded
    assert _opposing(answer) == []


async def test_a_statement_that_is_cut_is_not_contradicted(rig: Rig) -> None:
    long = "The bridge over the river, which Ada planned and Grace built in not much more than three years, is {} long."
    rig.library.put("old.txt", [long.format("240 metres")], fields=_dated(2020))
    rig.library.put("new.txt", [long.format("260 metres")], fields=_dated(2024))
    assert len(_opposing(await rig.ask(QUESTION))) == 1
    answer = await rig.ask(QUESTION, max_answer_chars=100)
    assert answer.finish_reason == answer_pb2.FINISH_REASON_LENGTH
    assert "260" not in answer.content
    assert _opposing(answer) == []


@pytest.mark.parametrize("store", [SessionStoreName.CATALOG, SessionStoreName.MEMORY])
async def test_a_kept_answer_depends_on_what_contradicts_it_too(make_rig: MakeRig, store: SessionStoreName) -> None:
    rig = make_rig(settings=settings_with(min_support=0.1, session_store=store))
    old = rig.library.put("old.txt", [OLD], fields=_dated(2020))
    rig.library.put("new.txt", [NEW], fields=_dated(2024))
    asked = {"message_id": str(uuid.uuid4()), "keep_for": Duration(seconds=3600)}
    kept = await rig.ask(QUESTION, **asked)
    assert [each.quote for each in _opposing(kept)] == [OLD]
    assert await rig.ask(QUESTION, **asked) == kept
    request = pb.ListAnswersRequest(document_id=old.document_id)
    (listed,) = (await rig.stub.ListAnswers(request)).answers
    assert (listed.answer.opposing_citations, listed.stale) == (kept.opposing_citations, False)
    rig.library.put("old.txt", [OLD.replace("240", "245")], replaces=old)
    (listed,) = (await rig.stub.ListAnswers(request)).answers
    assert listed.stale
    rig.library.documents.delete(DEFAULT_TENANT, "docs", old.document_id)
    messages = await rig.messages(kept.session_id)
    assert messages[1].content == "", "what quotes a document goes with it"
