"""Citations verify whatever the text is made of, and say why when they do not."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from groundwire.answer.ports import StoredDocument
from groundwire.answer.settings import AnswerSettings
from groundwire.answer.verification import CanonicalText, verify_in_document
from groundwire.api.answer.v1 import answer_service_pb2 as pb
from groundwire.api.answer.v1 import citation_pb2
from groundwire.api.common.v1 import span_pb2
from groundwire.kernel.budget import Budget
from groundwire.kernel.document import Document
from groundwire.kernel.errors import CallCancelledError, InvalidRequestError
from groundwire.kernel.identifiers import DEFAULT_TENANT
from groundwire.kernel.words import words
from tests.integration.answer.rig import Rig

_FAILURE = citation_pb2.VerificationFailure.Name


async def _verify(rig: Rig, *citations: citation_pb2.Citation) -> pb.VerifyCitationsResponse:
    response: pb.VerifyCitationsResponse = await rig.stub.VerifyCitations(
        pb.VerifyCitationsRequest(citations=citations)
    )
    return response


async def _cited(rig: Rig, question: str = "What do red foxes eat?") -> citation_pb2.Citation:
    return (await rig.ask(question)).citations[0]


def _changed(citation: citation_pb2.Citation, **fields: object) -> citation_pb2.Citation:
    copy = citation_pb2.Citation.FromString(citation.SerializeToString())
    for name, value in fields.items():
        target = copy.span if name in {"start", "end", "start_byte", "end_byte"} else copy
        setattr(target, name, value)
    return copy


async def test_a_citation_of_an_answer_verifies(rig: Rig) -> None:
    citation = await _cited(rig)
    response = await _verify(rig, citation)
    found = response.verifications[0]
    assert response.all_verified
    assert found.verdict == citation_pb2.CITATION_VERDICT_EXACT
    assert found.generation_live
    assert found.current_generation == 1
    assert found.stored_text == citation.quote
    assert found.current_span == citation.span


async def test_a_quote_that_stands_twice_is_where_its_citation_says(rig: Rig) -> None:
    quote = "Grey wolves eat large deer."
    document = rig.library.put("twice.txt", [f"{quote} {quote}"])
    for start in (0, 28):
        claimed = citation_pb2.Citation(document_id=document.document_id, generation=1, quote=quote)
        claimed.span.start, claimed.span.end = start, start + len(quote)
        [found] = (await _verify(rig, claimed)).verifications
        assert found.verdict == citation_pb2.CITATION_VERDICT_EXACT
        assert (found.current_span.start, found.live_span.start) == (start, start)


async def test_a_citation_needs_no_more_than_document_generation_quote_and_span(rig: Rig) -> None:
    whole = await _cited(rig)
    bare = citation_pb2.Citation(document_id=whole.document_id, generation=1, quote=whole.quote, span=whole.span)
    assert (await _verify(rig, bare)).all_verified


@pytest.mark.parametrize(
    ("changes", "failure"),
    [
        ({"quote": "Red foxes eat big mice."}, "TEXT_DIFFERS"),
        ({"start": 1}, "SPAN_INVALID"),
        ({"start": 1, "start_byte": 1}, "TEXT_DIFFERS"),
        ({"end_byte": 999_999}, "SPAN_INVALID"),
        ({"end": 999_999, "end_byte": 999_999}, "SPAN_INVALID"),
        ({"start": 0, "end": 0, "start_byte": 0, "end_byte": 0}, "SPAN_INVALID"),
        ({"quote_sha256": "0" * 64}, "DIGEST_DIFFERS"),
        ({"chunk_id": "doc_x#chunk_000"}, "CHUNK_MISMATCH"),
        ({"chunk_number": 999_999}, "CHUNK_MISMATCH"),
        ({"chunk_number": 2**60}, "CHUNK_MISMATCH"),
        ({"document_id": "doc_x"}, "DOCUMENT_NOT_FOUND"),
        ({"document_id": ""}, "DOCUMENT_NOT_FOUND"),
        ({"collection": "nowhere"}, "DOCUMENT_NOT_FOUND"),
        ({"generation": 7}, "GENERATION_NOT_FOUND"),
        ({"generation": 0}, "GENERATION_NOT_FOUND"),
    ],
)
async def test_a_citation_that_was_changed_fails_and_says_why(
    rig: Rig, changes: dict[str, object], failure: str
) -> None:
    citation = await _cited(rig)
    response = await _verify(rig, _changed(citation, **changes), citation)
    wrong, right = response.verifications
    assert wrong.verdict == citation_pb2.CITATION_VERDICT_FAILED
    assert _FAILURE(wrong.failure) == f"VERIFICATION_FAILURE_{failure}"
    assert wrong.message
    assert right.verdict == citation_pb2.CITATION_VERDICT_EXACT
    assert not response.all_verified


async def test_the_chunk_that_is_named_must_hold_the_whole_quote(rig: Rig) -> None:
    texts = ["Owls see mice at night.", "Grey wolves eat large deer.", "Bees make honey in summer."]
    document = rig.library.put("three.txt", texts)
    citation = next(each for each in (await rig.ask("What do grey wolves eat?")).citations if each.quote == texts[1])
    start, whole = citation.span.start, "\n".join(texts)
    assert whole[start : citation.span.end] == texts[1]
    assert (await _verify(rig, citation)).all_verified, "a quote may be all of its chunk"
    other = rig.library.put("same.txt", texts)
    for document_id, number in ((document.document_id, 0), (document.document_id, 2), (other.document_id, 1)):
        named = f"{document_id}#chunk_{number:03d}"
        [found] = (await _verify(rig, _changed(citation, chunk_id=named, chunk_number=0))).verifications
        assert _FAILURE(found.failure) == "VERIFICATION_FAILURE_CHUNK_MISMATCH"
    [found] = (await _verify(rig, _changed(citation, chunk_id="", chunk_number=2**40))).verifications
    assert _FAILURE(found.failure) == "VERIFICATION_FAILURE_CHUNK_MISMATCH"
    # One character more on either side belongs to no chunk.
    for side in ({"start": start - 1, "start_byte": start - 1}, {"end": citation.span.end + 1}):
        wider = _changed(citation, **side, quote=whole[side.get("start", start) : side.get("end", citation.span.end)])
        wider.span.end_byte, wider.quote_sha256 = wider.span.end, ""
        [found] = (await _verify(rig, wider)).verifications
        assert _FAILURE(found.failure) == "VERIFICATION_FAILURE_CHUNK_MISMATCH"


async def test_an_older_generation_still_verifies_and_is_known_to_be_old(rig: Rig) -> None:
    first = rig.library.put("news.txt", ["Old opening line. Grey wolves eat large deer."])
    citation = await _cited(rig, "What do grey wolves eat?")
    rig.library.put("news.txt", ["New. Grey wolves eat large deer. More follows."], replaces=first)
    found = (await _verify(rig, citation)).verifications[0]
    assert found.verdict == citation_pb2.CITATION_VERDICT_EXACT
    assert not found.generation_live
    assert found.current_generation == 2
    assert (found.current_span.start, found.current_span.end_byte) == (5, 32)


@pytest.mark.parametrize(
    ("replaced_by", "state", "start"),
    [
        ("Old opening line. Grey wolves eat large deer. And more.", "IN_PLACE", 18),
        ("New. Grey wolves eat large deer. More follows.", "MOVED", 5),
        ("Grey wolves eat large deer. No. Old opening line. Grey wolves eat large deer.", "MOVED", 50),
        ("Gr\u00fc\u00df. Old opening line. Grey wolves eat large deer. Or: Grey wolves eat large deer.", "MOVED", 24),
        # It begins before the old place, and ends behind it.
        ("Old opening no. Grey wolves eat large deer. Nobody knew. Grey wolves eat large deer.", "MOVED", 16),
        ("Grey wolves eat small deer.", "GONE", None),
    ],
)
async def test_a_citation_of_an_older_generation_says_what_became_of_its_quote(
    rig: Rig, replaced_by: str, state: str, start: int | None
) -> None:
    quote = "Grey wolves eat large deer."
    first = rig.library.put("news.txt", [f"Old opening line. {quote}"])
    citation = next(each for each in (await rig.ask("What do grey wolves eat?")).citations if each.quote == quote)
    assert (await _verify(rig, citation)).verifications[0].quote_state == citation_pb2.QUOTE_STATE_IN_PLACE
    rig.library.put("news.txt", [replaced_by], replaces=first)
    [found] = (await _verify(rig, citation)).verifications
    assert citation_pb2.QuoteState.Name(found.quote_state) == f"QUOTE_STATE_{state}"
    assert found.HasField("live_span") == (start is not None)
    assert start is None or (found.live_span.start, replaced_by[start : found.live_span.end]) == (start, quote)
    if start is not None:
        moved = _changed(citation, generation=2, chunk_id="", chunk_number=0)
        moved.span.CopyFrom(found.live_span)
        assert (await _verify(rig, moved)).all_verified


async def test_a_forged_citation_says_where_its_quote_really_stands(rig: Rig) -> None:
    citation = await _cited(rig)
    forged = _changed(citation, quote="The red fox hunts at night.", quote_sha256="")
    [found] = (await _verify(rig, forged)).verifications
    assert (found.verdict, found.quote_state) == (citation_pb2.CITATION_VERDICT_FAILED, citation_pb2.QUOTE_STATE_MOVED)
    assert found.live_span.start == 26
    [gone] = (await _verify(rig, _changed(citation, quote="Nobody wrote this."))).verifications
    assert (gone.quote_state, gone.HasField("live_span")) == (citation_pb2.QUOTE_STATE_GONE, False)


async def test_a_quote_that_never_stood_where_its_citation_says_is_looked_for_near_by(rig: Rig) -> None:
    quote, filler = "deer sleep.", " Nothing else is known." * 20
    text = f"At noon {quote}{filler} At noon wolves sing. At dawn {quote}"
    document = rig.library.put("noon.txt", [text])
    claimed = citation_pb2.Citation(document_id=document.document_id, generation=1, quote=quote)
    claimed.span.start = text.index("wolves")
    claimed.span.end = claimed.span.start + len(quote)
    [found] = (await _verify(rig, claimed)).verifications
    assert _FAILURE(found.failure) == "VERIFICATION_FAILURE_TEXT_DIFFERS"
    # What stands around the cited place says nothing about the quote.
    assert found.live_span.start == text.rindex(quote)


async def test_citations_of_a_deleted_document_fail(rig: Rig) -> None:
    document: Document = rig.library.put("gone.txt", ["Grey wolves eat large deer."])
    citation = await _cited(rig, "What do grey wolves eat?")
    rig.library.documents.delete(DEFAULT_TENANT, "docs", document.document_id)
    found = (await _verify(rig, citation)).verifications[0]
    assert _FAILURE(found.failure) == "VERIFICATION_FAILURE_DOCUMENT_NOT_FOUND"
    assert (found.current_generation, found.generation_live, found.stored_text) == (0, False, "")
    assert not found.HasField("current_span")
    assert (found.quote_state, found.HasField("live_span")) == (citation_pb2.QUOTE_STATE_GONE, False)


async def test_an_answer_that_cites_nothing_verifies(rig: Rig) -> None:
    response = await _verify(rig)
    assert response.all_verified
    assert not response.verifications


async def test_stored_texts_that_are_too_long_for_one_response_are_left_out(rig: Rig) -> None:
    """Four times a million characters, the last of another document; a response holds three of them."""
    one, other = (
        rig.library.put(f"{name}.txt", [" ".join([f"{name} deer {chunk:02}"] * 5000) for chunk in range(20)])
        for name in "ab"
    )
    whole = span_pb2.Span(start=0, end=one.total_chars)

    def wrong(document: Document, span: span_pb2.Span) -> citation_pb2.Citation:
        return citation_pb2.Citation(
            collection="docs", document_id=document.document_id, generation=1, quote="No deer.", span=span
        )

    three = [wrong(one, whole)] * 3
    found = (await _verify(rig, *three, wrong(other, whole), wrong(other, span_pb2.Span(start=0, end=6)))).verifications
    assert {_FAILURE(each.failure) for each in found} == {"VERIFICATION_FAILURE_TEXT_DIFFERS"}
    assert [len(each.stored_text) for each in found] == [whole.end] * 3 + [0, 6]


async def test_the_batch_has_a_limit(rig: Rig) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        await _verify(rig, *[citation_pb2.Citation()] * 1001)
    assert caught.value.violations[0].field == "citations"


_WORDS = st.sampled_from(
    [
        "fox",
        "eats",
        "the",
        "mouse",
        "café",
        "e\u0301clair",
        "👩\u200d🚀",
        "\u4f60\u597d\u3002",
        "**bold**",
        "`code.x`",
        "[link](a.md)",
        "naïve\u00a0x",
        "Dr.",
        "e.g.",
        "\U0001f98a",
    ]
)
_SENTENCE = st.lists(_WORDS, min_size=4, max_size=12).map(lambda parts: f"Fox {' '.join(parts)}.")
_LINE = st.one_of(
    _SENTENCE,
    _SENTENCE.map("- {}".format),
    _SENTENCE.map("> {}".format),
    _SENTENCE.map("1. **{}**".format),
    st.just("# Heading\u0301 👩\u200d🚀"),
    st.just("| a | fox eats mouse |"),
    st.just("```\ncode. Here it is.\n```"),
)
_CHUNK = st.lists(_LINE, min_size=1, max_size=5).flatmap(
    lambda lines: st.sampled_from(["\n", "\r\n", "\n\n", "\r\n\r\n"]).map(lambda end: end.join(lines))
)


@pytest.fixture(scope="module")
def shared_rig() -> Iterator[Rig]:
    with TemporaryDirectory() as folder:
        rig = Rig(Path(folder), settings=AnswerSettings(min_support=0.0))
        yield rig
        rig.close()


@example(chunks=["Fox fox fox fox fox.\n1. **Fox fox fox fox eats.**\n- Fox fox fox fox fox."], question="fox café")
@example(
    chunks=["Fox fox fox fox fox.\n1. **Fox fox fox fox eats.**\n- Fox fox fox fox fox."],
    question="What does the fox eat?",
)
@example(chunks=["The fox eats the mouse. It is red.", "Owls sleep by day."], question="What does the fox eat?")
@settings(max_examples=40)
@given(
    chunks=st.lists(_CHUNK, min_size=1, max_size=4), question=st.sampled_from(["What does the fox eat?", "fox café"])
)
def test_every_citation_of_any_text_verifies_and_is_its_slice(
    shared_rig: Rig, chunks: list[str], question: str
) -> None:
    name = f"c{len(shared_rig.collections)}"
    shared_rig.collections.append(name)
    collection = shared_rig.library.create(name)
    shared_rig.library.put("any.md", chunks, collection=collection)
    text = "\n".join(chunks)
    answer = asyncio.run(shared_rig.ask(question, collection=name))
    assert answer.citations or answer.refusal_reason
    assert answer.citations or not any(sure in text for sure in ("The fox eats the mouse.", "Fox fox fox fox eats."))
    for citation in answer.citations:
        span = citation.span
        assert text[span.start : span.end] == citation.quote
        assert text.encode()[span.start_byte : span.end_byte].decode() == citation.quote
    quotes = {citation.marker: citation.quote for citation in answer.citations}
    for claim in answer.claims:
        assert set(words(claim.text)) <= set(words(" ".join(quotes[marker] for marker in claim.markers)))
    if answer.citations:
        assert asyncio.run(_verify(shared_rig, *answer.citations)).all_verified


async def test_quotes_are_looked_for_in_workers(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    citation, threads = await _cited(rig), set[int]()
    only_place = CanonicalText.only_place

    def spied(text: CanonicalText, quote: str) -> object:
        threads.add(threading.get_ident())
        return only_place(text, quote)

    monkeypatch.setattr(CanonicalText, "only_place", spied)
    await _verify(rig, _changed(citation, quote="Foxes fly."))
    assert len(threads) == 1
    assert threading.get_ident() not in threads


def test_a_call_that_has_ended_compares_no_more_citations() -> None:
    claimed = citation_pb2.Citation(document_id="doc_a", generation=1, span=span_pb2.Span(end=5), quote="foxes")
    budget = Budget()
    budget.cancel()
    with pytest.raises(CallCancelledError):
        verify_in_document([(claimed, None)], StoredDocument(1, "foxes", "foxes"), 0, budget)
