"""Sessions after a document that their answers quote was deleted for good."""

import uuid
from dataclasses import replace

import pytest

from groundwire.answer.settings import AnswerSettings, ChatModel, SessionStoreName
from groundwire.api.answer.v1 import answer_pb2, session_pb2
from groundwire.api.answer.v1 import answer_service_pb2 as pb
from groundwire.api.common.v1.retrieval_options_pb2 import RetrievalOptions
from groundwire.catalog.collections import Collections
from groundwire.catalog.inspection import Inspection
from groundwire.catalog.sessions import NewMessage, Sessions
from groundwire.kernel.errors import AlreadyExistsError
from groundwire.kernel.identifiers import DEFAULT_TENANT
from groundwire.kernel.session import Role
from tests.integration.answer.conftest import MakeRig
from tests.integration.answer.rig import Rig, settings_with
from tests.scripted_model import scripted_model

WOLVES = ["Grey wolves eat large deer."]
REDACTED, COMPLETE = session_pb2.MESSAGE_STATE_REDACTED, session_pb2.MESSAGE_STATE_COMPLETE


@pytest.fixture(params=[SessionStoreName.CATALOG, SessionStoreName.MEMORY])
def rig(make_rig: MakeRig, request: pytest.FixtureRequest) -> Rig:
    return make_rig(settings=settings_with(min_support=0.3, session_store=request.param))


def stored(rig: Rig) -> bytes:
    """Return all that the catalog holds of messages."""
    with rig.library.database.read() as connection:
        rows = connection.exec_driver_sql("SELECT content, coalesce(answer, x''), coalesce(found, x'') FROM messages")
        return b"".join(content.encode() + answer + found for content, answer, found in rows)


async def test_what_quotes_it_is_redacted_and_the_session_goes_on(rig: Rig) -> None:
    wolves = rig.library.put("wolves.txt", WOLVES)
    session = await rig.session()
    await rig.ask("What do red foxes eat?", session_id=session)
    asked = str(uuid.uuid4())
    assert "deer" in (await rig.ask("What do grey wolves eat?", session_id=session, message_id=asked)).content
    deleted = rig.library.documents.delete(DEFAULT_TENANT, "docs", wolves.document_id)
    messages = await rig.messages(session)
    assert [message.state for message in messages] == [COMPLETE, COMPLETE, COMPLETE, REDACTED]
    assert "mice" in messages[1].content
    assert messages[1].citations
    assert (messages[2].message_id, messages[2].content) == (asked, "What do grey wolves eat?")
    assert (messages[3].content, list(messages[3].citations), messages[3].related_message_id) == ("", [], asked)
    assert b"deer" not in stored(rig)
    if stored(rig):
        assert next(each.total for each in deleted.deletion.stores if each.store == "sessions") >= 1
    with pytest.raises(AlreadyExistsError):
        await rig.ask("What do grey wolves eat?", session_id=session, message_id=asked)
    assert "mice" in (await rig.ask("What do red foxes eat at night?", session_id=session)).content
    assert len(await rig.messages(session)) == 6
    assert Inspection(rig.library.database).incomplete_sessions(DEFAULT_TENANT) == []


async def test_what_quotes_a_deleted_collection_is_redacted(rig: Rig) -> None:
    session = await rig.session()
    assert "mice" in (await rig.ask("What do red foxes eat?", session_id=session)).content
    deleted = Collections(rig.library.database).delete(DEFAULT_TENANT, "docs")
    assert [(message.state, message.content) for message in await rig.messages(session)] == [
        (COMPLETE, "What do red foxes eat?"),
        (REDACTED, ""),
    ]
    assert b"mice" not in stored(rig)
    if stored(rig):
        assert next(each.total for each in deleted.deletion.stores if each.store == "sessions") == 1


async def test_what_quotes_it_outside_of_the_window_is_redacted_too(rig: Rig) -> None:
    wolves = rig.library.put("wolves.txt", WOLVES)
    session, asked = await rig.session(), str(uuid.uuid4())
    await rig.ask("What do grey wolves eat?", session_id=session, message_id=asked)
    for number in range(5):
        await rig.ask(f"What do red foxes eat? {number}", session_id=session)
    rig.library.documents.delete(DEFAULT_TENANT, "docs", wolves.document_id)
    page = await rig.stub.ListMessages(pb.ListMessagesRequest(session_id=session, page_size=2))
    assert [(message.state, message.content) for message in page.messages] == [
        (COMPLETE, "What do grey wolves eat?"),
        (REDACTED, ""),
    ]
    with pytest.raises(AlreadyExistsError):
        await rig.ask("What do grey wolves eat?", session_id=session, message_id=asked)
    assert b"deer" not in stored(rig)


async def test_an_answer_that_quotes_another_document_stays_but_not_what_was_found_beside_it(rig: Rig) -> None:
    wolves = rig.library.put("wolves.txt", ["Grey wolves eat large deer, and red foxes fear them."])
    session, asked = await rig.session(), str(uuid.uuid4())
    question = "What do red foxes eat? Small mice?"
    answer = await rig.ask(question, session_id=session, message_id=asked)
    assert {citation.source_uri for citation in answer.citations} == {"foxes.txt"}
    assert wolves.document_id in {hit.chunk.document_id for hit in answer.hits}
    rig.library.documents.delete(DEFAULT_TENANT, "docs", wolves.document_id)
    messages = await rig.messages(session)
    assert [message.state for message in messages] == [COMPLETE, COMPLETE]
    again = await rig.ask(question, session_id=session, message_id=asked)
    assert (again.content, list(again.citations)) == (answer.content, list(answer.citations))
    assert list(again.hits) == []
    assert b"deer" not in stored(rig)


async def test_an_answer_from_a_document_that_came_back_is_kept(rig: Rig) -> None:
    wolves = rig.library.put("wolves.txt", WOLVES)
    rig.library.documents.delete(DEFAULT_TENANT, "docs", wolves.document_id)
    back = rig.library.put("wolves.txt", WOLVES, replaces=replace(wolves, generation=0))
    assert (back.document_id, back.generation) == (wolves.document_id, 2)
    session = await rig.session()
    assert "deer" in (await rig.ask("What do grey wolves eat?", session_id=session)).content
    messages = await rig.messages(session)
    assert [message.state for message in messages] == [COMPLETE, COMPLETE]
    assert "deer" in messages[1].content


async def test_an_answer_made_while_its_document_is_deleted_is_not_kept(make_rig: MakeRig) -> None:
    rig = make_rig(settings=settings_with(min_support=0.3, session_store=SessionStoreName.CATALOG))
    wolves = rig.library.put("wolves.txt", WOLVES)
    session = await rig.session()
    # As if it had been answered before the deletion and were stored after it.
    answer = await rig.ask("What do grey wolves eat?", session_id=await rig.session())
    rig.library.documents.delete(DEFAULT_TENANT, "docs", wolves.document_id)
    sessions = Sessions(rig.library.database)
    question = NewMessage("q", Role.USER, "What do grey wolves eat?", rig.clock.now())
    reply = NewMessage(
        "a",
        Role.ASSISTANT,
        answer.content,
        rig.clock.now(),
        "q",
        answer=answer.SerializeToString(),
        cited=(wolves.document_id,),
    )
    sessions.append(DEFAULT_TENANT, session, "", [question, reply])
    assert [message.state for message in await rig.messages(session)] == [COMPLETE, REDACTED]
    assert b"deer" not in stored(rig)


async def test_a_refusal_that_names_its_heading_is_redacted_and_no_other(rig: Rig) -> None:
    texts = ["Wolves on zebra.", "Wolves on salary.", "Wolves on kubernetes."]
    wolves = rig.library.put("wolves.txt", texts, headings=["Project Falcon", "Project Hawk", "Project Kite"])
    bears = rig.library.put("bears.txt", ["Brown bears sleep."], headings=["Project Eagle"])
    session, asked = await rig.session(), str(uuid.uuid4())
    question = "Which zebra pays wolves a salary on kubernetes?"
    options = RetrievalOptions(top_k=20)
    refused = await rig.ask(question, session_id=session, message_id=asked, options=options, strictness=0.6)
    assert refused.refusal_reason == answer_pb2.REFUSAL_REASON_WEAK_SUPPORT
    assert "wolves.txt (Project Falcon)" in refused.content
    assert "bears.txt" not in refused.content
    assert bears.document_id in {hit.chunk.document_id for hit in refused.hits}
    rig.library.documents.delete(DEFAULT_TENANT, "docs", bears.document_id)
    assert (await rig.messages(session))[-1].content == refused.content
    rig.library.documents.delete(DEFAULT_TENANT, "docs", wolves.document_id)
    messages = await rig.messages(session)
    assert [(message.state, message.content) for message in messages] == [(COMPLETE, question), (REDACTED, "")]
    assert b"Falcon" not in stored(rig)
    with pytest.raises(AlreadyExistsError):
        await rig.ask(question, session_id=session, message_id=asked)


@pytest.mark.parametrize("store", [SessionStoreName.CATALOG, SessionStoreName.MEMORY])
async def test_what_a_model_wrote_without_a_source_goes_with_what_it_was_shown(
    make_rig: MakeRig, store: SessionStoreName
) -> None:
    async with scripted_model() as model:
        model.says("Red foxes eat small mice [1]. The wolves of Falcon weigh nine hundred tons.")
        settings = AnswerSettings(min_support=0.1, session_store=store)
        rig = make_rig(settings=settings, chat_model=ChatModel(model.url, "tiny"))
        wolves = rig.library.put("wolves.txt", ["Grey wolves of Falcon eat foxes."])
        session = await rig.session()
        answer = await rig.ask(
            "What do red foxes eat?", session_id=session, grounding=answer_pb2.GROUNDING_POLICY_ANNOTATE
        )
        assert {citation.source_uri for citation in answer.citations} == {"foxes.txt"}
        assert "Falcon" in answer.content
        rig.library.documents.delete(DEFAULT_TENANT, "docs", wolves.document_id)
        messages = await rig.messages(session)
        assert [(message.state, message.content) for message in messages[1:]] == [(REDACTED, "")]
        assert b"Falcon" not in stored(rig)


async def test_the_id_of_an_answer_is_no_id_for_a_question(rig: Rig) -> None:
    session = await rig.session()
    answer = await rig.ask("What do red foxes eat?", session_id=session)
    with pytest.raises(AlreadyExistsError):
        await rig.ask("What is bread made of?", session_id=session, message_id=answer.message_id)
    assert len(await rig.messages(session)) == 2


def test_messages_are_found_by_document_and_not_by_reading_all(make_rig: MakeRig) -> None:
    rig = make_rig()
    plan = """EXPLAIN QUERY PLAN SELECT DISTINCT message_key FROM message_documents
        WHERE tenant = 'default' AND document_id IN (SELECT value FROM json_each('["a"]'))"""
    with rig.library.database.read() as connection:
        steps = [row[3] for row in connection.exec_driver_sql(plan)]
    assert any("SEARCH message_documents USING" in step and "tenant=? AND document_id=?" in step for step in steps), (
        steps
    )
    assert not any(step.startswith("SCAN message") for step in steps), steps
