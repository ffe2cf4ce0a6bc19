"""The main job with the Python client, blocking and asynchronous, against a real server."""

import asyncio
import dataclasses
import threading
import time
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from google.protobuf.field_mask_pb2 import FieldMask

from groundwire.api.ingest.v1 import collection_pb2
from groundwire.client import (
    Answer,
    AsyncGroundwireClient,
    Citation,
    Collection,
    FailedQuestion,
    GroundwireClient,
    IngestResult,
    Progress,
    Sources,
    TextDelta,
)
from groundwire.client.uploads import Upload
from groundwire.kernel.document_errors import EmptyDocumentError
from groundwire.kernel.errors import (
    AlreadyExistsError,
    CollectionNotFoundError,
    DocumentNotFoundError,
    InvalidFilterError,
    InvalidRequestError,
    OperationNotFoundError,
    PreconditionError,
    SessionNotFoundError,
)
from groundwire.rpc.value_messages import to_duration
from tests.e2e.server import ServerProcess

TIDES = "# Tides\n\nThe moon causes the tides of the sea. A spring tide is the highest tide.\n"
BREAD = "# Bread\n\nSourdough rises because of wild yeast. It needs flour, water and salt.\n"


@pytest.fixture(scope="module")
def client(server: ServerProcess) -> Iterator[GroundwireClient]:
    with GroundwireClient(server.address) as made:
        yield made


@pytest.fixture(scope="module")
def notes(client: GroundwireClient, tmp_path_factory: pytest.TempPathFactory) -> Collection:
    folder = tmp_path_factory.mktemp("notes")
    (folder / "tides.md").write_text(TIDES, encoding="utf-8")
    notes = client.collection("notes")
    assert notes.create().profile == "general"
    done = notes.ingest(folder / "tides.md", metadata={"year": 2024}, tags=["sea"], creators=["Doe, Jane"])
    assert (done.outcome, done.chunk_count, done.document.source) == ("created", 1, "tides.md")
    notes.ingest_text(BREAD, source="bread.md", metadata={"year": 1999}, title="On bread")
    return notes


def test_a_filtered_search(notes: Collection) -> None:
    found = notes.search("tides of the sea", k=5, filter={"year": {"$gte": 2024}})
    assert [hit.source for hit in found] == ["tides.md"]
    assert (len(found), found[0].rank, found[0].metadata) == (1, 1, {"year": 2024})
    assert found[0].text == notes.text("tides.md")[found[0].span.start : found[0].span.end]
    assert found.message.results[0].chunk.chunk_id == found[0].chunk_id
    assert len(notes.search("anything", k=1, mode="vector")) == 1


def test_what_a_search_is_told_to_leave_out_is_left_out(client: GroundwireClient) -> None:
    ranked = client.collection("ranked")
    ranked.create()
    sections = (f"# Tide {number}\n\n" + f"The tide of harbour {number} is high. " * 40 for number in range(4))
    ranked.ingest_text("\n\n".join(sections), source="long.md")
    ranked.ingest_text("The tide of the river is low.", source="short.md")
    whole = ranked.search("tide of the harbour", k=10, min_relevance=0.0)
    assert len(whole) > 4
    assert sorted(hit.source for hit in ranked.search("tide of the harbour", k=10, max_per_document=1)) == [
        "long.md",
        "short.md",
    ]
    least = whole[1].score
    best = ranked.search("tide of the harbour", k=10, min_relevance=least)
    assert [hit.chunk_id for hit in best] == [hit.chunk_id for hit in whole if hit.score >= least]
    assert len(best) < len(whole)


def test_an_answer_is_cited_and_verified(client: GroundwireClient, notes: Collection) -> None:
    answer = notes.ask("What causes the tides of the sea?")
    assert answer.grounded
    assert answer.refusal == ""
    assert answer.citations[0].source == "tides.md"
    checked = client.verify(answer)
    assert checked.verified
    assert [each.citation for each in checked.citations] == list(answer.citations)
    plain = dataclasses.asdict(dataclasses.replace(answer.citations[0], message=None))
    again = Citation(**plain | {"span": answer.citations[0].span})
    assert notes.verify([again]).verified
    forged = dataclasses.replace(again, quote=again.quote.replace("moon", "king"))
    (failed,) = client.verify([forged]).citations
    assert (failed.verified, failed.failure, failed.is_current) == (False, "text_differs", True)


def test_an_answer_that_the_material_does_not_give_is_refused(notes: Collection) -> None:
    assert notes.ask("What causes the tides of the sea?", strictness=1.0).refusal == "weak_support"
    answer = notes.ask("Who won the chess championship of 1972?", filter={"year": 1800})
    assert (answer.grounded, answer.citations, answer.refusal) == (False, (), "no_results")


def test_the_texts_of_hits_and_citations_are_read_in_one_call(notes: Collection) -> None:
    notes.ingest_text("A text that goes: the comet is made of ice.", source="going.md")
    hits = notes.search("tides of the sea, bread, comet", k=10, min_relevance=0.0)
    answer = notes.ask("What causes the tides of the sea?")
    notes.delete_document("going.md", purge=True)
    assert "going.md" in {hit.source for hit in hits}
    places = [*hits, *answer.citations] * 300
    assert len(places) > 1000
    stays = [None if hit.source == "going.md" else hit.text for hit in hits]
    assert notes.read(places) == [*stays, *(citation.quote for citation in answer.citations)] * 300
    assert notes.read([]) == []


def test_what_was_read_is_read_again_whatever_was_written_since(client: GroundwireClient) -> None:
    kept = client.collection("kept")
    kept.create()
    settings = collection_pb2.CollectionSettings(generation_retention=to_duration(3600))
    client.update_collection(
        collection=collection_pb2.Collection(name="kept", settings=settings),
        update_mask=FieldMask(paths=["settings.generation_retention"]),
    )
    kept.ingest_text("The ferry leaves at nine.", source="ferry.md")
    before = kept.ask("When does the ferry leave?")
    found = kept.search("ferry")
    assert before.snapshot == found.snapshot
    kept.ingest_text("The ferry leaves at ten.", source="ferry.md")
    assert [hit.text for hit in kept.search("ferry", snapshot=found.snapshot)] == [hit.text for hit in found]
    assert kept.read(found.hits) == ["The ferry leaves at nine."]
    again = kept.ask("When does the ferry leave?", snapshot=before.snapshot)
    assert (again.text, again.citations) == (before.text, before.citations)
    (streamed,) = [
        each
        for each in kept.ask_stream("When does the ferry leave?", snapshot=before.snapshot)
        if isinstance(each, Answer)
    ]
    assert streamed.text == before.text
    assert "ten" in kept.ask("When does the ferry leave?").text
    with pytest.raises(InvalidRequestError, match="snapshot: is ahead of the catalog"):
        kept.search("ferry", snapshot=2**62)


def test_records_of_an_entity_are_searched_and_cited(client: GroundwireClient) -> None:
    club = client.collection("club")
    club.create(profile="memory")
    club.remember("Alice plays the cello.", entity="alice")
    club.remember("The club meets on Mondays.")
    assert [hit.text for hit in club.search("cello", k=5)] == ["The club meets on Mondays."]
    assert [hit.text for hit in club.search("cello", k=5, entity="alice")] == ["Alice plays the cello."]
    assert len(club.search("cello", k=5, entity="alice", include_global=True)) == 2
    question = "What does Alice play?"
    of_all = club.ask(question, strictness=0.0)
    of_alice = club.ask(question, entity="alice", strictness=0.0)
    assert [each.quote for each in of_all.citations] == ["The club meets on Mondays."]
    assert [each.quote for each in of_alice.citations] == ["Alice plays the cello."]
    events = club.converse([question, question], entity="alice", strictness=0.0)
    assert [each.text for each in events if isinstance(each, Answer)] == [of_alice.text] * 2


def test_an_answer_is_stored_for_as_long_as_asked(client: GroundwireClient, notes: Collection) -> None:
    answer = notes.ask("What causes the tides of the sea?", keep_for=timedelta(days=30))
    kept = client.get_answer(session_id=answer.session_id, answer_id=answer.message_id).answer
    assert kept.answer.content == answer.text
    assert notes.ask("What causes the tides of the sea?").session_id == ""


def test_a_session_is_continued(client: GroundwireClient, notes: Collection) -> None:
    session = notes.start_session()
    first = notes.ask("What causes the tides of the sea?", session=session)
    second = notes.ask("And which is the highest?", session=session.session_id)
    assert first.session_id == second.session_id == session.session_id
    stored = client.get_session(session_id=session.session_id).session
    assert stored.message_count == 4


def test_a_session_is_recorded_in_a_conversation(notes: Collection) -> None:
    session = notes.start_session(user="ada", conversation="")
    assert session.message.conversation_id.startswith("conv-")
    assert session.message.scope == "entity:ada"
    again = notes.start_session(conversation=session.message.conversation_id, scope="entity:ben")
    assert (again.message.conversation_id, again.message.scope) == (session.message.conversation_id, "entity:ben")
    assert notes.start_session().message.conversation_id == ""


def test_a_streamed_answer_ends_with_the_whole_of_it(notes: Collection) -> None:
    events = list(notes.ask_stream("What causes the tides of the sea?"))
    answer = events[-1]
    assert isinstance(answer, Answer)
    assert isinstance(events[0], Sources)
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == answer.text
    assert [event for event in events if isinstance(event, Citation)] == list(answer.citations)


def test_questions_on_one_stream_are_answered_one_after_the_other(client: GroundwireClient, notes: Collection) -> None:
    questions = ["What causes the tides of the sea?", " ", "And what is the highest of them?"]
    events = list(notes.converse(questions))
    first, failed, second = [each for each in events if isinstance(each, Answer | FailedQuestion)]
    assert isinstance(failed, FailedQuestion)
    assert failed.question == " "
    assert isinstance(failed.error, InvalidRequestError)
    assert isinstance(first, Answer)
    assert isinstance(second, Answer)
    deltas = [event.text for event in events[: events.index(first)] if isinstance(event, TextDelta)]
    assert "".join(deltas) == first.text
    assert first.session_id == second.session_id
    said = client.list_messages(session_id=first.session_id).messages
    assert [each.content for each in said] == [questions[0], first.text, questions[2], second.text]
    again = [each for each in notes.converse(["Why?"], session=first.session_id) if isinstance(each, Answer)]
    assert [each.session_id for each in again] == [first.session_id]
    with pytest.raises(SessionNotFoundError):
        list(notes.converse(["Why?"], session="00000000-0000-4000-8000-000000000000"))
    with pytest.raises(TypeError, match="question must be a text, not 3"):
        list(notes.converse(cast("Any", [3])))


async def test_questions_may_come_while_answers_do(server: ServerProcess, notes: Collection) -> None:
    answered: asyncio.Queue[Answer] = asyncio.Queue()

    async def questions() -> AsyncIterator[str]:
        yield "What causes the tides of the sea?"
        yield f"And what is {(await answered.get()).text[-20:]}?"

    texts = []
    async with AsyncGroundwireClient(server.address) as asynchronous:
        async for event in asynchronous.collection(notes.name).converse(questions()):
            if isinstance(event, Answer):
                texts.append(event.text)
                answered.put_nowait(event)
    assert len(texts) == 2


async def test_an_error_of_the_questions_ends_their_conversation_as_it_is(
    server: ServerProcess, notes: Collection
) -> None:
    def questions() -> Iterator[str]:
        yield "What causes the tides of the sea?"
        raise LookupError("no more")

    async def questions_to_come() -> AsyncIterator[str]:
        for question in questions():
            yield question

    with pytest.raises(LookupError, match="no more"):
        await asyncio.to_thread(list, notes.converse(questions()))
    with pytest.raises(TypeError, match="a blocking client takes no asynchronous iterable"):
        await asyncio.to_thread(list, notes.converse(questions_to_come()))
    async with AsyncGroundwireClient(server.address) as asynchronous:
        with pytest.raises(LookupError, match="no more"):
            async for _ in asynchronous.collection(notes.name).converse(questions_to_come()):
                pass


def test_an_asynchronous_client_outside_of_a_loop_says_where_it_belongs() -> None:
    with pytest.raises(RuntimeError, match="create it in a coroutine"):
        AsyncGroundwireClient("127.0.0.1:1")


def test_an_upload_that_is_refused_leaves_no_thread(client: GroundwireClient, tmp_path: Path) -> None:
    path = tmp_path / "tides.md"
    path.write_text("The moon causes the tides.", encoding="utf-8")

    def refuse() -> None:
        with pytest.raises(CollectionNotFoundError):
            client.collection("nowhere").ingest(path, on_progress=print)

    refuse()  # which starts the threads of the library
    before = threading.active_count()
    for _ in range(5):
        refuse()
    ends_at = time.monotonic() + 20
    while threading.active_count() > before:
        assert time.monotonic() < ends_at, threading.enumerate()
        time.sleep(0.02)


def test_a_collection_whose_settings_have_changed_is_taken_as_it_is(client: GroundwireClient) -> None:
    handled = client.collection("handled")
    handled.create()
    changed = collection_pb2.Collection(name="handled")
    changed.settings.retrieval.top_k = 5
    client.update_collection(collection=changed, update_mask=FieldMask(paths=["settings.retrieval.top_k"]))
    for profile in (None, "general"):
        assert handled.create(profile=profile).message.settings.retrieval.top_k == 5
    with pytest.raises(AlreadyExistsError, match="exists with the profile general, not book"):
        handled.create(profile="book")


def test_documents_are_listed_found_and_deleted(client: GroundwireClient, notes: Collection) -> None:
    assert [each.source for each in notes.documents()] == ["bread.md", "tides.md"]
    assert [each.source for each in notes.documents(filter={"year": 2024})] == ["tides.md"]
    assert [each.source for each in notes.documents(source_prefix="br")] == ["bread.md"]
    document = notes.document("tides.md")
    assert (document.creators, document.tags, document.metadata) == (("Doe, Jane",), ("sea",), {"year": 2024})
    assert notes.document(document.document_id) == document
    assert notes.document("bread.md").title == "On bread"
    notes.ingest_text("To be forgotten.", source="old.md")
    old = notes.document("old.md")
    assert not notes.delete_document("old.md").purged
    with pytest.raises(DocumentNotFoundError):
        notes.document("old.md")
    assert "old.md" not in {each.source for each in notes.documents()}
    assert "old.md" in {each.source for each in notes.documents(include_deleted=True)}
    assert notes.restore_document("old.md") == old
    assert notes.delete_document(old.document_id, purge=True).purged
    with pytest.raises(DocumentNotFoundError):
        notes.restore_document("old.md")
    for number in range(2):
        notes.ingest_text(f"Draft {number}.", source=f"draft{number}.md", project="drafts")
    assert notes.purge({"project": "drafts"}).sample == ("draft0.md", "draft1.md")
    assert notes.purge({"project": "drafts"}, force=True).document_count == 2
    assert [each.source for each in notes.documents(include_deleted=True)] == ["bread.md", "tides.md"]
    with pytest.raises(InvalidRequestError):
        notes.purge({}, force=True)
    assert "notes" in [info.name for info in client.collections()]
    drafts = client.collection("drafts")
    drafts.create(profile="book")
    assert drafts.info().profile == "book"
    drafts.ingest_text("A draft.", source="draft.md")
    with pytest.raises(PreconditionError):
        drafts.delete()
    drafts.delete(force=True)
    with pytest.raises(CollectionNotFoundError):
        drafts.info()


def test_a_large_file_is_uploaded_and_reported(client: GroundwireClient, tmp_path: Path) -> None:
    (tmp_path / "large.txt").write_text("The moon causes the tides of the sea. " * 200, encoding="utf-8")
    large = client.collection("large")
    large.create()
    reports: list[Progress] = []
    done = large.ingest(tmp_path / "large.txt", source="books/large.txt", on_progress=reports.append)
    assert (done.outcome, done.document.source) == ("created", "books/large.txt")
    assert {"receiving", "embedding"} <= {report.stage for report in reports}
    assert large.ingest(tmp_path / "large.txt", source="books/large.txt").outcome == "unchanged"


async def test_what_reading_a_file_raises_comes_from_its_upload(
    client: GroundwireClient, server: ServerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "torn.txt"
    path.write_text("The moon causes the tides of the sea. " * 200, encoding="utf-8")
    client.collection("torn").create()

    def fail(*_: object) -> None:
        raise OSError("the disk is torn")

    monkeypatch.setattr(Upload, "next_part", fail)
    with pytest.raises(OSError, match="the disk is torn"):
        client.collection("torn").ingest(path, on_progress=print)
    async with AsyncGroundwireClient(server.address) as asynchronous:
        with pytest.raises(OSError, match="the disk is torn"):
            await asynchronous.collection("torn").ingest(path, on_progress=print)


def test_a_document_has_the_id_that_its_caller_chose(client: GroundwireClient, tmp_path: Path) -> None:
    chosen = client.collection("chosen")
    chosen.create()
    for name in ("a.md", "b.md", "c.md"):
        (tmp_path / name).write_text(f"The tide of {name}.", encoding="utf-8")
    made = [
        chosen.ingest_text("The tide.", source="text.md", document_id="my-text"),
        chosen.ingest(tmp_path / "a.md", document_id="my-a"),
        chosen.ingest(tmp_path / "b.md", document_id="my-b", on_progress=print),
        chosen.wait(chosen.start_ingest(tmp_path / "c.md", document_id="my-c")),
    ]
    assert [each.document.document_id for each in made] == ["my-text", "my-a", "my-b", "my-c"]
    assert {each.document_id for each in chosen.documents()} == {"my-text", "my-a", "my-b", "my-c"}


def test_an_ingest_goes_on_without_its_caller(client: GroundwireClient, tmp_path: Path) -> None:
    later = client.collection("later")
    later.create()
    (tmp_path / "small.md").write_text(TIDES, encoding="utf-8")
    (tmp_path / "large.txt").write_text("The tide comes in. " * 100_000, encoding="utf-8")
    (tmp_path / "empty.md").write_text(" ", encoding="utf-8")
    begun = [later.start_ingest(tmp_path / name, tags=["sea"]) for name in ("small.md", "large.txt", "empty.md")]
    assert client.wait(begun[0]).document.tags == ("sea",)
    result = client.wait(begun[1].name)
    assert (result.outcome, result.document.source) == ("created", "large.txt")
    with pytest.raises(EmptyDocumentError):
        client.wait(begun[2])
    client.cancel(begun[0])
    assert client.wait(begun[0]).outcome == "created"
    with pytest.raises(OperationNotFoundError):
        client.wait("operations/00000000-0000-4000-8000-000000000000")


def test_many_files_are_ingested_and_each_fails_for_itself(client: GroundwireClient, tmp_path: Path) -> None:
    many = client.collection("many")
    many.create()
    (tmp_path / "b").mkdir()
    paths = {"large.txt": tmp_path / "large.txt", "b/empty.md": tmp_path / "b" / "empty.md"}
    paths["large.txt"].write_text("The tide comes in. " * 60_000, encoding="utf-8")
    paths["b/empty.md"].write_text("  ", encoding="utf-8")
    for number in range(102):
        paths[f"{number:03}.md"] = tmp_path / f"{number:03}.md"
        paths[f"{number:03}.md"].write_text(f"Tide {number}.\n", encoding="utf-8")
    paths["none.md"] = tmp_path / "none.md"
    paths["folder"] = tmp_path
    paths["last.md"] = tmp_path / "last.md"
    paths["last.md"].write_text("The last of the tides.\n", encoding="utf-8")
    outcomes = many.ingest_many(paths, tags=["sea"])
    unreadable = outcomes[-3:-1]
    assert [type(error) for error in unreadable] == [InvalidRequestError] * 2
    assert "none.md cannot be read: No such file" in str(unreadable[0])
    assert "cannot be read: Is a directory" in str(unreadable[1])
    assert isinstance(outcomes[1], EmptyDocumentError)
    results = [outcome for outcome in outcomes if isinstance(outcome, IngestResult)]
    assert [result.document.source for result in results] == [
        source for source in paths if source not in {"b/empty.md", "none.md", "folder"}
    ]
    assert {result.outcome for result in results} == {"created"}
    assert {result.document.tags for result in results} == {("sea",)}
    again = many.ingest_many([tmp_path / "001.md", tmp_path / "000.md"])
    assert [isinstance(outcome, IngestResult) and outcome.outcome for outcome in again] == ["unchanged"] * 2
    with pytest.raises(InvalidRequestError):
        many.ingest_many([tmp_path / "001.md", tmp_path / "001.md"])
    with pytest.raises(CollectionNotFoundError):
        client.collection("none").ingest_many([tmp_path / "001.md"])
    for number in range(5):
        (tmp_path / f"blank{number}.txt").write_text(" " * 1_000_000, encoding="utf-8")
    blank = many.ingest_many([tmp_path / f"blank{number}.txt" for number in range(5)])
    assert [type(each) for each in blank] == [EmptyDocumentError] * 5, "together they are too large for a message"


def test_mistakes_are_typed(client: GroundwireClient, notes: Collection, tmp_path: Path) -> None:
    with pytest.raises(CollectionNotFoundError):
        client.collection("nope").search("x")
    with pytest.raises(InvalidFilterError, match="did you mean 'year'"):
        notes.search("x", filter={"yaer": 1})
    with pytest.raises(InvalidRequestError, match="hybrid, vector, lexical"):
        notes.search("x", mode="fuzzy")
    with pytest.raises(SessionNotFoundError):
        notes.ask("Why?", session="00000000-0000-4000-8000-000000000000")
    with pytest.raises(FileNotFoundError):
        notes.ingest(tmp_path / "none.md")


async def test_the_asynchronous_client_does_the_same(server: ServerProcess, notes: Collection, tmp_path: Path) -> None:
    async with AsyncGroundwireClient(server.address) as client:
        same = client.collection("notes")
        assert repr(same) == "AsyncCollection('notes')"
        question, where = "What causes the tides of the sea?", {"year": {"$gte": 2024}}
        assert (await same.search(question, filter=where)).hits == notes.search(question, filter=where).hits
        answer = await same.ask(question)
        assert answer.text == notes.ask(question).text
        assert (await client.verify(answer)).verified
        events = [event async for event in same.ask_stream(question)]
        assert [type(event) for event in events] == [type(event) for event in notes.ask_stream(question)]
        assert [each.source async for each in same.documents()] == [each.source for each in notes.documents()]
        (tmp_path / "a.md").write_text(BREAD, encoding="utf-8")
        asynchronous = client.collection("asynchronous")
        await asynchronous.create()
        reports: list[Progress] = []
        assert (await asynchronous.ingest(tmp_path / "a.md", on_progress=reports.append)).outcome == "created"
        assert reports
        assert await asynchronous.text("a.md") == BREAD
        begun = await asynchronous.start_ingest(tmp_path / "a.md")
        assert (await client.wait(begun, on_progress=reports.append)).outcome == "unchanged"
        (again,) = await asynchronous.ingest_many([tmp_path / "a.md"])
        assert isinstance(again, IngestResult)
        assert again.outcome == "unchanged"
        assert (await asynchronous.purge("*", force=True)).document_count == 1
