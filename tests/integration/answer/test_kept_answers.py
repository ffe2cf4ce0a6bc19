"""Answers that are kept: found again, listed, compared with their sources of today, and gone with their session."""

import uuid
from dataclasses import replace
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration

from groundwire.answer import verification
from groundwire.answer.settings import SessionStoreName
from groundwire.api.answer.v1 import answer_pb2, citation_pb2, session_pb2
from groundwire.api.answer.v1 import answer_service_pb2 as pb
from groundwire.catalog.sessions import NewMessage, Sessions
from groundwire.kernel.collection import ProfileName
from groundwire.kernel.errors import (
    AlreadyExistsError,
    ChunkNotFoundError,
    InvalidRequestError,
    NotFoundError,
    SessionNotFoundError,
)
from groundwire.kernel.identifiers import DEFAULT_TENANT
from groundwire.kernel.identity import Identity
from groundwire.kernel.session import Role
from groundwire.rpc import request_context
from groundwire.rpc.request_context import RequestContext
from tests.integration.answer.conftest import MakeRig
from tests.integration.answer.rig import FOXES, Rig, settings_with

_QUESTION = "What do red foxes eat?"
_WOLVES = "What do grey wolves eat?"


@pytest.fixture(params=[SessionStoreName.CATALOG, SessionStoreName.MEMORY])
def rig(make_rig: MakeRig, request: pytest.FixtureRequest) -> Rig:
    """A rig with each session store in turn, and a second document."""
    rig = make_rig(settings=settings_with(min_support=0.1, session_store=request.param))
    rig.library.put("wolves.txt", ["Grey wolves eat large deer."])
    return rig


async def _list(rig: Rig, **fields: Any) -> list[pb.KeptAnswer]:
    return list((await rig.stub.ListAnswers(pb.ListAnswersRequest(**fields))).answers)


async def _get(rig: Rig, answer: answer_pb2.Answer) -> pb.GetAnswerResponse:
    request = pb.GetAnswerRequest(session_id=answer.session_id, answer_id=answer.message_id)
    response: pb.GetAnswerResponse = await rig.stub.GetAnswer(request)
    return response


async def _keep(rig: Rig, question: str, **fields: Any) -> answer_pb2.Answer:
    fields = {"message_id": str(uuid.uuid4()), "keep_for": Duration(seconds=3600)} | fields
    return await rig.ask(question, **fields)


async def test_a_single_question_is_kept_when_that_is_asked_for(rig: Rig) -> None:
    asked = str(uuid.uuid4())
    await rig.ask(_QUESTION)
    kept = await _keep(rig, _QUESTION, message_id=asked, user_id="ann")
    assert kept.citations
    again = await _keep(rig, _QUESTION, message_id=asked, user_id="ann")
    assert again == kept
    (listed,) = await _list(rig)
    assert (listed.question, listed.question_id, listed.stale) == (_QUESTION, asked, False)
    assert listed.state == session_pb2.MESSAGE_STATE_COMPLETE
    assert (listed.answer.content, list(listed.answer.citations)) == (kept.content, list(kept.citations))
    assert not listed.answer.hits
    for message_id in (asked, kept.message_id):
        request = pb.GetAnswerRequest(session_id=kept.session_id, answer_id=message_id)
        found = await rig.stub.GetAnswer(request)
        assert found.answer == listed
        assert {each.verdict for each in found.verifications} == {citation_pb2.CITATION_VERDICT_EXACT}
    session = (await rig.stub.GetSession(pb.GetSessionRequest(session_id=kept.session_id))).session
    assert (session.idle_timeout.seconds, session.user_id) == (3600, "ann")
    await rig.ask("And at night?", session_id=kept.session_id)
    assert len(await _list(rig, session_id=kept.session_id)) == 2


async def test_what_is_kept_goes_with_its_session_its_user_and_its_time(rig: Rig) -> None:
    answers = [await _keep(rig, _QUESTION, user_id=user) for user in ("ann", "bob", "carl")]
    assert [each.answer.message_id for each in await _list(rig)] == [each.message_id for each in answers[::-1]]
    assert [each.answer.message_id for each in await _list(rig, user_id="bob")] == [answers[1].message_id]
    await rig.stub.DeleteSessions(pb.DeleteSessionsRequest(user_id="ann"))
    await rig.stub.DeleteSession(pb.DeleteSessionRequest(session_id=answers[1].session_id))
    for gone in answers[:2]:
        with pytest.raises(SessionNotFoundError):
            await _get(rig, gone)
    assert [each.answer.message_id for each in await _list(rig)] == [answers[2].message_id]
    rig.clock.advance(hours=2)
    assert (await _get(rig, answers[2])).answer.answer.message_id == answers[2].message_id


async def test_answers_of_sources_that_changed_or_vanished_are_stale(rig: Rig) -> None:
    foxes = rig.library.documents.find_by_source(DEFAULT_TENANT, "docs", "foxes.txt")
    wolves = rig.library.documents.find_by_source(DEFAULT_TENANT, "docs", "wolves.txt")
    assert foxes is not None
    assert wolves is not None
    session = await rig.session()
    of_wolves = await rig.ask(_WOLVES, session_id=session)
    of_bread = await rig.ask("How is bread made? flour water", session_id=session)
    of_foxes = await _keep(rig, _QUESTION)
    assert {each.source_uri for each in of_foxes.citations} == {"foxes.txt"}
    assert {each.source_uri for each in of_wolves.citations} == {"wolves.txt"}
    assert await _list(rig, stale=True) == []
    for document, answers in ((wolves, [of_wolves]), (foxes, [of_foxes, of_bread])):
        citing = await _list(rig, document_id=document.document_id)
        assert [each.answer.message_id for each in citing] == [each.message_id for each in answers]
    assert await _list(rig, document_id="doc_x") == []
    assert await _list(rig, document_id=wolves.document_id, user_id="ann") == []
    rig.library.put("foxes.txt", ["At dawn it is cold. Red foxes eat small mice. Bread is old."], replaces=foxes)
    stale = await _list(rig, stale=True)
    assert [each.answer.message_id for each in stale] == [of_foxes.message_id, of_bread.message_id]
    assert [each.stale for each in await _list(rig)] == [True, True, False]
    assert len(await _list(rig, document_id=foxes.document_id, stale=True)) == 2
    assert await _list(rig, document_id=wolves.document_id, stale=True) == []
    moved = await _get(rig, of_foxes)
    assert moved.answer.stale
    here = next(index for index, each in enumerate(of_foxes.citations) if each.quote == "Red foxes eat small mice.")
    verification = moved.verifications[here]
    assert (verification.generation_live, verification.current_generation) == (False, 2)
    assert (verification.current_span.start, verification.current_span.end) == (20, 45)
    rig.library.documents.delete(DEFAULT_TENANT, "docs", wolves.document_id)
    redacted = (await _list(rig, stale=True))[-1]
    assert redacted.answer.message_id == of_wolves.message_id
    assert (redacted.state, redacted.answer.content) == (session_pb2.MESSAGE_STATE_REDACTED, "")
    assert redacted.question == _WOLVES
    back = rig.library.put("foxes.txt", ["Red foxes eat small mice."], replaces=replace(foxes, generation=2))
    fresh = await _keep(rig, _QUESTION)
    assert fresh.citations[0].generation == back.generation
    assert fresh.message_id not in {each.answer.message_id for each in await _list(rig, stale=True)}


@pytest.mark.parametrize("stale", [False, True])
async def test_answers_are_listed_in_pages(make_rig: MakeRig, *, stale: bool) -> None:
    """Some in the catalog and some in memory; each is on one page."""
    rig = make_rig()
    foxes = rig.library.documents.find_by_source(DEFAULT_TENANT, "docs", "foxes.txt")
    book = rig.library.create("book", profile=ProfileName.BOOK)
    rig.library.put("owls.md", ["Red owls eat small mice."], collection=book)
    made = [(await _keep(rig, _QUESTION)).message_id for _ in range(3)]
    owls = [(await _keep(rig, "What do red owls eat?", collection="book")).message_id for _ in range(5)]
    rig.library.put("foxes.txt", ["Nothing is said of them."], replaces=foxes)
    seen, sizes, token = list[str](), list[int](), ""
    while not sizes or token:
        page = await rig.stub.ListAnswers(pb.ListAnswersRequest(page_size=2, page_token=token, stale=stale))
        seen += [each.answer.message_id for each in page.answers]
        sizes.append(len(page.answers))
        token = page.next_page_token
    assert seen == [*reversed(made), *([] if stale else reversed(owls))]
    assert sizes == ([2, 1] if stale else [2, 2, 2, 2])
    of_book = await _list(rig, collection="book")
    assert [each.answer.message_id for each in of_book] == owls[::-1]


async def test_a_page_of_few_stale_answers_among_many_ends_early(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verification, "_READ_AT_A_TIME", 1)
    monkeypatch.setattr(verification, "_MOST_READ", 2)
    wolves = rig.library.documents.find_by_source(DEFAULT_TENANT, "docs", "wolves.txt")
    session = await rig.session()
    stale = await rig.ask(_WOLVES, session_id=session)
    for number in range(2):
        await rig.ask(f"{_QUESTION} {number}", session_id=session)
    rig.library.put("wolves.txt", ["Nothing is said of them."], replaces=wolves)
    first = await rig.stub.ListAnswers(pb.ListAnswersRequest(stale=True))
    assert not first.answers
    assert first.next_page_token
    (found,) = await _list(rig, stale=True, page_token=first.next_page_token)
    assert found.answer.message_id == stale.message_id


async def test_a_quote_of_a_kept_answer_is_compared_with_its_document_whatever_chunk_it_was_found_in(
    make_rig: MakeRig,
) -> None:
    """A quote may run over the end of a chunk, which is no fault of the answer."""
    rig = make_rig(settings=settings_with(min_support=0.1, session_store=SessionStoreName.CATALOG))
    answer = await rig.ask(_QUESTION)
    [wider] = answer.citations[:1]
    document = rig.library.documents.find_by_source(DEFAULT_TENANT, "docs", "foxes.txt")
    assert document is not None
    text = "\n".join(FOXES)
    wider.quote, wider.span.end, wider.span.end_byte, wider.quote_sha256 = text[wider.span.start :], len(text), 0, ""
    wider.span.start_byte = 0
    [compared] = (await rig.stub.VerifyCitations(pb.VerifyCitationsRequest(citations=[wider]))).verifications
    assert compared.failure == citation_pb2.VERIFICATION_FAILURE_CHUNK_MISMATCH
    session, now = await rig.session(), rig.clock.now()
    asked, answered = str(uuid.uuid4()), str(uuid.uuid4())
    question = NewMessage(asked, Role.USER, _QUESTION, now)
    said = NewMessage(answered, Role.ASSISTANT, answer.content, now, asked, answer=answer.SerializeToString())
    Sessions(rig.library.database).append(DEFAULT_TENANT, session, "", [question, said])
    kept = await rig.stub.GetAnswer(pb.GetAnswerRequest(session_id=session, answer_id=answered))
    assert kept.verifications[0].verdict == citation_pb2.CITATION_VERDICT_EXACT


async def test_other_tenants_see_nothing_of_it(rig: Rig) -> None:
    kept = await _keep(rig, _QUESTION)
    request_context.bind(RequestContext("", Identity("other")))
    assert await _list(rig) == []
    with pytest.raises(SessionNotFoundError):
        await _get(rig, kept)


async def test_answers_that_are_not_there(rig: Rig) -> None:
    session, unknown = await rig.session(), str(uuid.uuid4())
    with pytest.raises(NotFoundError, match=f"answer '{unknown}' does not exist"):
        await rig.stub.GetAnswer(pb.GetAnswerRequest(session_id=session, answer_id=unknown))
    with pytest.raises(SessionNotFoundError):
        await rig.stub.GetAnswer(pb.GetAnswerRequest(session_id=unknown, answer_id=unknown))


async def test_a_kept_question_that_is_refused_leaves_nothing(rig: Rig) -> None:
    with pytest.raises(ChunkNotFoundError):
        await _keep(rig, _QUESTION, chunk_ids=["doc_x#chunk_000"])
    assert not (await rig.stub.ListSessions(pb.ListSessionsRequest())).sessions


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"keep_for": Duration(nanos=1)}, "keep_for"),
        ({"keep_for": Duration(seconds=367 * 86_400)}, "keep_for"),
        ({"session_id": str(uuid.UUID(int=7))}, "keep_for"),
        ({"message_id": ""}, "message_id"),
        ({"user_id": "a\nb"}, "user_id"),
        ({"keep_for": None, "user_id": "ann"}, "user_id"),
        ({"keep_for": None, "new_session_on_topic_shift": True}, "new_session_on_topic_shift"),
    ],
)
async def test_wishes_that_cannot_be_met(rig: Rig, fields: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        await _keep(rig, _QUESTION, **fields)
    assert [violation.field for violation in caught.value.violations] == [field]


@pytest.mark.requirement("S4-35")
async def test_a_new_topic_gets_a_session_of_its_own_when_that_is_asked_for(rig: Rig) -> None:
    old = await rig.session(user_id="ann", labels={"team": "red"}, idle_timeout=Duration(seconds=99))
    fields = {"session_id": old, "new_session_on_topic_shift": True}
    first = await rig.ask(_QUESTION, **fields)
    asked = str(uuid.uuid4())
    shifted = await rig.ask("How is bread made?", message_id=asked, **fields)
    assert (first.session_id, first.topic_shift) == (old, False)
    assert shifted.session_id != old
    assert shifted.topic_shift
    session = (await rig.stub.GetSession(pb.GetSessionRequest(session_id=shifted.session_id))).session
    assert (session.user_id, dict(session.labels), session.idle_timeout.seconds) == ("ann", {"team": "red"}, 99)
    assert [message.content for message in session.messages] == ["How is bread made?", shifted.content]
    assert len(await rig.messages(old)) == 2
    # The old session goes on with bread, so that the question would be no new topic in it any more.
    follow = await rig.ask("What is bread made of?", session_id=old)
    assert await rig.ask("How is bread made?", message_id=asked, **fields) == shifted
    same = await rig.ask("Is bread made of flour?", **fields)
    assert (same.session_id, follow.session_id) == (old, old)


async def test_a_repetition_gets_the_answer_on_a_new_topic_whatever_became_of_the_old_one(rig: Rig) -> None:
    old = await rig.session()
    first = await rig.ask(_QUESTION, session_id=old)
    asked = {
        "session_id": old,
        "message_id": str(uuid.uuid4()),
        "new_session_on_topic_shift": True,
        "expected_head": first.message_id,
    }
    shifted = await rig.ask("How is bread made?", **asked)
    assert shifted.session_id != old
    await rig.ask("Do they hunt at night?", session_id=old)
    assert await rig.ask("How is bread made?", **asked) == shifted
    await rig.stub.EndSession(pb.EndSessionRequest(session_id=old))
    assert await rig.ask("How is bread made?", **asked) == shifted


@pytest.mark.parametrize("other", [{"collection": "notes"}, {"user_id": "bob"}])
async def test_a_message_id_is_kept_for_one_collection_and_user(rig: Rig, other: dict[str, str]) -> None:
    rig.library.create("notes")
    asked = str(uuid.uuid4())
    kept = await _keep(rig, _QUESTION, message_id=asked, user_id="ann")
    with pytest.raises(AlreadyExistsError):
        await _keep(rig, _QUESTION, **({"message_id": asked, "user_id": "ann"} | other))
    assert await _keep(rig, _QUESTION, message_id=asked, user_id="ann") == kept


async def test_a_repetition_that_names_another_collection_than_the_session_is_refused(rig: Rig) -> None:
    rig.library.create("notes")
    session, asked = await rig.session(), str(uuid.uuid4())
    await rig.ask(_QUESTION, session_id=session, message_id=asked)
    with pytest.raises(InvalidRequestError):
        await rig.ask(_QUESTION, session_id=session, message_id=asked, collection="notes")
