"""Records that hold text of documents, over gRPC: they go for good with the first of these."""

import uuid
from pathlib import Path
from typing import Any

import pytest

from groundwire.api.common.v1 import record_pb2
from groundwire.api.common.v1.document_pb2 import DocumentReference
from groundwire.api.ingest.v1 import deletion_pb2
from groundwire.api.ingest.v1 import record_service_pb2 as pb
from groundwire.client import GroundwireClient
from groundwire.kernel.errors import DocumentNotFoundError
from groundwire.kernel.identifiers import new_document_id
from tests.e2e.server import ServerProcess
from tests.embedding_endpoint import embedding_endpoint
from tests.integration.records.keeping import (
    ASSISTANT,
    MEMORY,
    SUMMARY,
    USER,
    Keeping,
    failure,
    memory,
    memory_id,
    record,
    turn,
    until,
)

CONVERSATION = "conv-quotes"
MOON = "The moon causes the tides."


def ingest(keeping: Keeping, source: str, text: str = MOON) -> str:
    """Ingest a document and return its id."""
    request: dict[str, Any] = {"collection": keeping.collection, "source_uri": source, "text": text}
    return keeping.client.ingest_document(**request).result.document.document_id


def purge(keeping: Keeping, document_id: str, *, softly: bool = False) -> deletion_pb2.DeletionReceipt:
    reference = DocumentReference(document_id=document_id)
    request: dict[str, Any] = {"collection": keeping.collection, "reference": reference, "purge": not softly}
    return keeping.client.delete_document(**request).receipt


def reply(text: str, *quoted: str, **fields: Any) -> record_pb2.Record:
    """Return an answer that holds text of documents."""
    return turn(ASSISTANT, text, CONVERSATION, quoted_document_ids=quoted, **fields)


def test_what_quotes_a_purged_document_goes_with_it(keeping: Keeping) -> None:
    moon, whales = ingest(keeping, "moon.md"), ingest(keeping, "whales.md", "Whales sing.")
    asked, answered, other, hidden = keeping.put(
        turn(USER, "What causes the tides?", CONVERSATION, turn_index=1),
        reply(f"{MOON} [1]", moon, whales, turn_index=1),
        reply("Whales sing. [1]", whales, turn_index=2),
        reply("Moon and tides. [1]", moon, turn_index=3),
    )
    assert list(keeping.get(answered.record_id).quoted_document_ids) == [moon, whales]
    summary = record(
        *(SUMMARY, "The moon was spoken of."),
        summary=record_pb2.SummaryDetails(conversation_id=CONVERSATION),
        quoted_document_ids=[moon],
    )
    # A later answer quotes the first one, and a memory quotes that: both hold text of the document as well.
    again = keeping.put(summary, reply("As said, the moon. [1]", answered.document_id, turn_index=4))[1]
    keeping.put(record(MEMORY, "The moon, as was said twice.", quoted_document_ids=[again.document_id]))
    keeping.delete(hidden.record_id)
    receipt = purge(keeping, moon)
    assert (receipt.document_count, receipt.chunk_count) == (6, 6)
    assert {each.store: each.removed_count for each in receipt.stores}["records"] == 5
    left = pb.ListRecordsRequest(collection=keeping.collection, include_deleted=True)
    stored = keeping.client.list_records.send(left).records
    assert [each.record_id for each in stored] == [asked.record_id, other.record_id]
    assert {*keeping.found("moon tides")} == {"What causes the tides?", "Whales sing. [1]", "Whales sing."}
    assert all(each.leftover_count == 0 for each in receipt.stores if each.store in {"catalog", "records"})


@pytest.mark.parametrize("way", ["softly", "another"])
def test_what_is_not_gone_for_good_leaves_its_quotes(keeping: Keeping, way: str) -> None:
    moon, whales = ingest(keeping, "moon.md"), ingest(keeping, "whales.md", "Whales sing.")
    keeping.put(reply(MOON, moon))
    if way == "softly":
        purge(keeping, moon, softly=True)
    else:
        assert purge(keeping, whales).document_count == 1
    assert keeping.texts() == [MOON]


def test_what_quotes_a_record_goes_with_the_record_that_is_deleted_for_good(keeping: Keeping) -> None:
    keeping.put(memory("I live in Bonn.", record_id=memory_id(1)), memory("I like tea.", record_id=memory_id(2)))
    bonn, tea = (keeping.get(memory_id(number)).document_id for number in (1, 2))
    keeping.put(reply("You live in Bonn. [1]", bonn), reply("You like tea. [1]", tea))
    assert keeping.delete(memory_id(1), permanent=True).receipt.document_count == 2
    assert sorted(keeping.texts()) == ["I like tea.", "You like tea. [1]"]


def test_a_purge_by_filter_counts_what_goes_with_the_documents(keeping: Keeping) -> None:
    moon = ingest(keeping, "moon.md")
    ingest(keeping, "whales.md", "Whales sing.")
    keeping.put(reply(MOON, moon))
    purged = keeping.client.collection(keeping.collection).purge({"source_uri": "moon.md"}, force=True)
    assert purged.document_count == 2
    assert keeping.texts() == []
    assert keeping.found("whales") == ["Whales sing."]


def test_a_record_quotes_no_more_than_a_thousand_documents_with_all_its_texts(keeping: Keeping) -> None:
    *most, last = (new_document_id() for _ in range(1001))
    stored = memory_id(1)
    keeping.put(record(MEMORY, "The moon.", quoted_document_ids=most, record_id=stored))
    refused = keeping.refused(record(MEMORY, "The tides.", quoted_document_ids=[last], record_id=stored))
    assert "more than 1000" in refused["quoted_document_ids"]
    keeping.put(record(MEMORY, "The tides.", quoted_document_ids=most[:1], record_id=stored))
    assert keeping.texts() == ["The tides."]


def test_an_earlier_text_is_still_taken_to_quote(keeping: Keeping) -> None:
    moon, whales = ingest(keeping, "moon.md"), ingest(keeping, "whales.md", "Whales sing.")
    name = keeping.put(reply(MOON, moon))[0].record_id
    keeping.change(name, "text", "quoted_document_ids", text="Whales sing.", quoted_document_ids=[whales])
    assert list(keeping.get(name).quoted_document_ids) == [moon, whales]
    keeping.put(reply("Nothing is known.", record_id=name, turn_index=1))
    assert list(keeping.get(name).quoted_document_ids) == [moon, whales]
    purge(keeping, moon)
    assert keeping.texts() == []


def test_what_quotes_a_document_that_is_gone_is_refused(keeping: Keeping) -> None:
    moon = ingest(keeping, "moon.md")
    purge(keeping, moon)
    assert isinstance(failure(keeping.put, reply(MOON, moon)), DocumentNotFoundError)
    response = keeping.client.batch_upsert_records(
        collection=keeping.collection, records=[reply(MOON, moon), memory("Whales sing.")], allow_partial=True
    )
    assert [outcome.HasField("error") for outcome in response.outcomes] == [True, False]
    assert keeping.texts() == ["Whales sing."]


@pytest.mark.parametrize(("quoted", "said"), [(["a b"], "[0]"), ([f"d{n}" for n in range(1001)], "0 to 1000")])
def test_ids_that_cannot_be_are_named(keeping: Keeping, quoted: list[str], said: str) -> None:
    refused = keeping.refused(reply(MOON, *quoted))
    assert said in "".join(f"{field} {reason}" for field, reason in refused.items())
    assert next(iter(refused)).startswith("quoted_document_ids")


def test_a_record_does_not_quote_more_over_time_than_at_once(keeping: Keeping) -> None:
    name = keeping.put(reply(MOON, *(f"d{number}" for number in range(1000))))[0].record_id
    refused = keeping.refused(reply(MOON, "d1000", record_id=name))
    assert list(refused) == ["quoted_document_ids"]


def test_a_document_that_is_purged_while_a_quote_of_it_is_embedded_is_not_quoted(tmp_path: Path) -> None:
    with embedding_endpoint() as endpoint:
        server = ServerProcess(tmp_path / "data", ("--embedder", f"{endpoint.url}#words"))
        with GroundwireClient(server.address) as client:
            keeping = Keeping(client)
            moon = ingest(keeping, "moon.md")

            def purge_first(answer: dict[str, Any]) -> dict[str, Any]:
                endpoint.spoil = lambda unchanged: unchanged
                purge(keeping, moon)
                return answer

            endpoint.spoil = purge_first
            assert isinstance(failure(keeping.put, reply("The moon again.", moon)), DocumentNotFoundError)
            assert keeping.texts() == []
            assert keeping.found("moon") == []
        assert server.stop() == 0


def test_a_question_is_recorded_without_the_answer_that_was_redacted_meanwhile(tmp_path: Path) -> None:
    with embedding_endpoint() as endpoint:
        arguments = ("--embedder", f"{endpoint.url}#words")
        server = ServerProcess(tmp_path / "data", arguments, GROUNDWIRE_ANSWER_MIN_SUPPORT="0.05")
        with GroundwireClient(server.address) as client:
            keeping = Keeping(client)
            moon = ingest(keeping, "moon.md")
            question = "What causes the tides?"

            def purge_and_fail(answer: dict[str, Any]) -> dict[str, Any]:
                embedded = endpoint.requests[-1]["input"]
                if len(embedded) != 2 or question not in embedded:  # not yet both turns, which are embedded together
                    return answer
                endpoint.key, endpoint.spoil = "another", lambda unchanged: unchanged
                purge(keeping, moon)
                return {}

            endpoint.spoil = purge_and_fail
            session = client.create_session(collection=keeping.collection, conversation_id=CONVERSATION).session
            answer = client.ask(session_id=session.session_id, question=question, message_id=str(uuid.uuid4())).answer
            assert MOON in answer.content
            until(lambda: endpoint.key != "")
            asked = len(endpoint.requests)
            until(lambda: len(endpoint.requests) > asked)
            endpoint.key = ""  # recording goes on, with what is stored of the answer by now
            until(lambda: not client.get_session(session_id=session.session_id).session.unrecorded_exchange_count)
            assert keeping.texts() == [question]
        assert server.stop() == 0
