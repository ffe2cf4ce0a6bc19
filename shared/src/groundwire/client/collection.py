"""A collection as Python callers see it: plain values in, plain values out.

Every method is written once and is blocking in `Collection`, awaited in `AsyncCollection`.
"""

import uuid
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from datetime import timedelta
from os import PathLike
from pathlib import Path
from typing import Any, Final, Unpack

from google.longrunning import operations_pb2

from groundwire.api.answer.v1 import answer_pb2
from groundwire.api.answer.v1 import answer_service_pb2 as answer_pb
from groundwire.api.common.v1 import document_pb2, retrieval_options_pb2, search_mode_pb2
from groundwire.api.ingest.v1 import collection_pb2, ingest_result_pb2
from groundwire.api.ingest.v1 import collection_service_pb2 as collections_pb
from groundwire.api.ingest.v1 import ingest_service_pb2 as pb
from groundwire.api.retrieve.v1 import library_service_pb2 as library_pb
from groundwire.api.retrieve.v1 import retrieve_service_pb2 as retrieve_pb
from groundwire.client.contract import Contract
from groundwire.client.long_running import end_of
from groundwire.client.records import RecordOperations
from groundwire.client.results import (
    Answer,
    AnswerEvent,
    Citation,
    CollectionInfo,
    Deletion,
    Document,
    FailedQuestion,
    Hit,
    IngestOperation,
    IngestResult,
    Progress,
    Purge,
    SearchResults,
    Session,
    Verification,
    answer_event,
)
from groundwire.client.transport import (
    AsyncCaller,
    Caller,
    Operation,
    StreamOperation,
    SyncCaller,
    Transport,
    all_items,
    check_argument,
    on_document,
    valid_texts,
)
from groundwire.client.uploads import UNARY_BYTES, ingest_files, put_chunks, upload
from groundwire.client.values import Fields, FilterJson, fields_message, filter_message, named_value, purge_filter
from groundwire.kernel.errors import (
    CollectionNotFoundError,
    DataLossError,
    GroundwireError,
    InvalidRequestError,
)
from groundwire.rpc.error_status import from_status
from groundwire.rpc.value_messages import to_duration

_CONVERSE_PATH: Final = "/groundwire.api.answer.v1.AnswerService/Converse"
# As many as one call takes.
_SPANS: Final = 1000


class Operations(Caller):
    """The methods that clients and collections have."""

    @Operation
    async def verify(self, answer: Answer | Sequence[Citation]) -> Verification:
        """Compare the citations of an answer with the stored texts, character for character, at any later time.

        Raises:
            TypeError: it is no answer and no list of citations; a text of your own is checked by `ground_text`.

        Example:
            answer = client.collection("handbook").ask("What is a span?")
            assert client.verify(answer).verified
        """
        given: Any = answer.citations if isinstance(answer, Answer) else answer  # untyped callers give anything
        is_list = isinstance(given, Iterable) and not isinstance(given, str)
        citations = tuple(given) if is_list else ()
        if not is_list or not all(isinstance(each, Citation) for each in citations):
            takes = f"answer must be an Answer or a list of Citation, not {type(answer).__name__}"
            raise TypeError(f"{takes}; `ground_text` checks a text of your own")
        request = answer_pb.VerifyCitationsRequest(citations=[citation.to_message() for citation in citations])
        return Verification.of(await self._transport.send(Contract.verify_citations, request), citations)

    @Operation
    async def wait(
        self, operation: IngestOperation | str, *, on_progress: Callable[[Progress], None] | None = None
    ) -> IngestResult:
        """Wait for an ingest that `start_ingest` began, and return its result.

        Args:
            operation: what `start_ingest` returned, or its name.
            on_progress: called now and then while it runs.

        Raises:
            OperationNotFoundError: there is no such operation.
            GroundwireError: the document was refused, or `cancel` ended it.

        Example:
            begun = client.collection("handbook").start_ingest("spans.md", metadata={"year": 2024})
            print(client.wait(begun.name).document.document_id)
        """
        name = _operation_name(operation)
        found = await self._transport.send(Contract.get_operation, operations_pb2.GetOperationRequest(name=name))
        response = await end_of(self._transport, found, pb.IngestDocumentResponse, on_progress)
        return IngestResult.of(response.result)

    @Operation
    async def cancel(self, operation: IngestOperation | str) -> None:
        """Cancel an ingest that `start_ingest` began; one that has ended stays as it is.

        Example:
            begun = client.collection("handbook").start_ingest("spans.md", metadata={"year": 2024})
            client.cancel(begun)
        """
        name = _operation_name(operation)
        await self._transport.send(Contract.cancel_operation, operations_pb2.CancelOperationRequest(name=name))


class CollectionOperations(Operations, RecordOperations):
    """The methods of a collection."""

    def __init__(self, transport: Transport, name: str) -> None:
        check_argument("name", name, str)
        self._transport = transport
        self.name = name

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    @Operation
    async def create(self, *, profile: str | None = None) -> CollectionInfo:
        """Create the collection; one with the same profile is left as it is, whatever its settings.

        Args:
            profile: general, documents, conversations, memory, web or book; None takes the collection as it is when
                it exists, else general.

        Raises:
            AlreadyExistsError: it exists with another profile.

        Example:
            info = client.collection("handbook").create()
            print(info.embedding_model)
        """
        request = collections_pb.CreateCollectionRequest(collection=self.name)
        if profile is not None:
            request.profile = named_value("profile", collection_pb2.Profile, profile)
        # Looked at first: the call compares the settings as well, which somebody may have changed since.
        known = collections_pb.GetCollectionRequest(collection=self.name)
        try:
            found = CollectionInfo.of((await self._transport.send(Contract.get_collection, known)).collection)
        except CollectionNotFoundError:
            return CollectionInfo.of((await self._transport.send(Contract.create_collection, request)).collection)
        found.check_profile(profile)
        return found

    @Operation
    async def info(self) -> CollectionInfo:
        """Return the profile, counts and embedding model of the collection.

        Raises:
            CollectionNotFoundError: there is no such collection.

        Example:
            print(client.collection("handbook").info().document_count)
        """
        request = collections_pb.GetCollectionRequest(collection=self.name)
        return CollectionInfo.of((await self._transport.send(Contract.get_collection, request)).collection)

    @Operation
    async def delete(self, *, force: bool = False) -> Deletion:
        """Delete the collection, for good.

        Args:
            force: delete its documents with it; required if there are any.

        Raises:
            PreconditionError: it has documents, perhaps ones that can be restored, and `force` is not given.

        Example:
            drafts = client.collection("drafts")
            drafts.create()
            drafts.delete(force=True)
        """
        request = collections_pb.DeleteCollectionRequest(collection=self.name, force=force)
        return Deletion.of((await self._transport.send(Contract.delete_collection, request)).receipt)

    @Operation
    async def ingest(
        self,
        path: str | PathLike[str],
        *,
        source: str = "",
        document_id: str = "",
        on_progress: Callable[[Progress], None] | None = None,
        **fields: Unpack[Fields],
    ) -> IngestResult:
        """Ingest a file of any size; the same bytes again cost nothing.

        Args:
            path: the file, which must not change meanwhile.
            source: name under which the document is stored and cited; the file name if not given.
            document_id: id of a new document; made by the server if not given.
            on_progress: called with each report of the server, in a blocking client in the thread that waits.
            fields: facts about the document, such as `title` and `metadata`; see `Fields`.

        Raises:
            InvalidRequestError: the file cannot be read as a document; its subclasses say why.
            OSError: the file cannot be opened.

        Example:
            handbook = client.collection("handbook")
            result = handbook.ingest("spans.md", metadata={"year": 2024}, on_progress=print)
            print(result.outcome, result.document.document_id)
        """
        said = {"document_id": document_id, "fields": fields_message(fields)}
        return IngestResult.of((await self._send_file(path, source, on_progress, **said)).result)

    @Operation
    async def start_ingest(
        self,
        path: str | PathLike[str],
        *,
        source: str = "",
        document_id: str = "",
        **fields: Unpack[Fields],
    ) -> IngestOperation:
        """Send a file and return as soon as the server has stored it, which then ingests it, also after a restart.

        `wait` returns the result, at any time within a week. Files with one source may be ingested in any order.

        Args:
            path: the file.
            source: name under which the document is stored and cited; the file name if not given.
            document_id: id of a new document; made by the server if not given.
            fields: facts about the document, such as `title` and `metadata`; see `Fields`.

        Raises:
            InvalidRequestError: the collection does not take the document.
            OSError: the file cannot be opened.

        Example:
            handbook = client.collection("handbook")
            begun = handbook.start_ingest("spans.md", metadata={"year": 2024})
            print(begun.name)
            print(handbook.wait(begun, on_progress=print).outcome)
        """
        said = {"document_id": document_id, "fields": fields_message(fields), "run_async": True}
        return IngestOperation.of((await self._send_file(path, source, None, **said)).operation)

    @Operation
    async def ingest_many(
        self,
        files: Iterable[str | PathLike[str]] | Mapping[str, str | PathLike[str]],
        **fields: Unpack[Fields],
    ) -> list[IngestResult | GroundwireError]:
        """Ingest files in batches and return, in their order, the result or the error of each.

        Args:
            files: the files, stored and cited under their names, which differ; or a mapping from sources to files.
            fields: facts about every one of them; see `Fields`.

        Raises:
            GroundwireError: an error that concerns all of them, such as a missing collection.

        Example:
            handbook = client.collection("handbook")
            for outcome in handbook.ingest_many(["spans.md"], metadata={"year": 2024}):
                print(outcome)
        """
        if isinstance(files, str | PathLike):  # a text is iterable, too
            raise InvalidRequestError.of("files", f"must be a list of paths or a mapping to paths, not {files!r}")
        named = files.items() if isinstance(files, Mapping) else ((Path(file).name, file) for file in files)
        given = [(source, Path(file)) for source, file in named]
        path_of: dict[str, Path] = {}
        for source, path in given:
            if (other := path_of.setdefault(source, path)) != path:  # one would replace the other
                advice = "give a mapping from sources to files, such as their paths below a folder"
                raise InvalidRequestError.of(
                    "files", f"{other} and {path} would both be stored as {source!r}: {advice}"
                )
        return await ingest_files(self._transport, self.name, given, fields_message(fields))

    @Operation
    async def ingest_text(
        self, text: str, *, source: str, document_id: str = "", **fields: Unpack[Fields]
    ) -> IngestResult:
        r"""Ingest a Markdown or plain text, which is stored and cited under `source`.

        Example:
            handbook = client.collection("handbook")
            handbook.ingest_text("# Tides\n\nThe moon causes the tides.", source="tides.md", tags=["sea"])
        """
        request = pb.IngestDocumentRequest(
            collection=self.name,
            source_uri=source,
            text=text,
            document_id=document_id,
            fields=fields_message(fields),
        )
        return IngestResult.of((await self._transport.send(Contract.ingest_document, request)).result)

    @Operation
    async def search(
        self,
        query: str,
        *,
        k: int | None = None,
        filter: FilterJson | None = None,  # noqa: A002 - what everybody calls it
        mode: str = "",
        min_relevance: float | None = None,
        max_per_document: int | None = None,
        entity: str | None = None,
        include_global: bool = False,
        snapshot: int | None = None,
    ) -> SearchResults:
        """Return the chunks that match a query best.

        Args:
            query: what to look for.
            k: maximum number of results; the collection's default if not given.
            filter: which chunks may be found, in the JSON form of filters.
            mode: hybrid, vector or lexical; the collection's default if not given.
            min_relevance: lowest score of a result, 0 to 1; the collection's default if not given.
            max_per_document: maximum number of results of one document; any number if not given.
            entity: entity whose records may be found; global ones if not given. Documents are found in any case.
            include_global: with `entity`, find global records too.
            snapshot: position to read as of, the `snapshot` of earlier results or of an answer; now if not given.

        Raises:
            CollectionNotFoundError: there is no collection of this name.
            SnapshotExpiredError: what was there at the snapshot is not all stored any more.
            InvalidFilterError: the filter names an unknown field or operator.

        Example:
            for hit in client.collection("handbook").search("spans", k=5, filter={"year": {"$gte": 2024}}):
                print(hit.rank, hit.score, hit.source, hit.text)
        """
        options = _options(k, filter, mode, min_relevance, max_per_document, entity, include_global, snapshot)
        request = retrieve_pb.RetrieveRequest(collection=self.name, query=query, options=options)
        return SearchResults.of(await self._transport.send(Contract.retrieve, request))

    @Operation
    async def start_session(self, *, user: str = "", conversation: str | None = None, scope: str = "") -> Session:
        """Start a session, which expires when no question is asked for a while.

        Args:
            user: whose session it is; its records then stand in the scope `entity:` and this, unless `scope` is given.
            conversation: records what is said, in the conversation of this id, `conv-` and a name, or in a new one when
                empty, whose id `message.conversation_id` has; None records nothing.
            scope: with a conversation, the scope of its records: `global` or `entity:` and a name.

        Example:
            handbook = client.collection("handbook")
            session = handbook.start_session(user="ada", conversation="")
            handbook.ask("What is a span?", session=session)
            print(handbook.ask("And what is it of?", session=session).text)
        """
        request = answer_pb.CreateSessionRequest(
            collection=self.name,
            user_id=user,
            conversation_id=conversation or "",
            new_conversation=conversation == "",
            scope=scope,
        )
        return Session.of((await self._transport.send(Contract.create_session, request)).session)

    @Operation
    async def ask(
        self,
        question: str,
        *,
        session: Session | str | None = None,
        k: int | None = None,
        filter: FilterJson | None = None,  # noqa: A002 - what everybody calls it
        mode: str = "",
        min_relevance: float | None = None,
        max_per_document: int | None = None,
        entity: str | None = None,
        include_global: bool = False,
        snapshot: int | None = None,
        grounding: str = "strict",
        strictness: float | None = None,
        keep_for: timedelta | None = None,
    ) -> Answer:
        """Answer a question with citations, or say why not (`refusal`).

        Args:
            question: the question.
            session: conversation it belongs to, or its id; without one the question stands alone.
            k: maximum number of chunks to answer from; the collection's default if not given.
            filter: which chunks may be used, in the JSON form of filters.
            mode: hybrid, vector or lexical; the collection's default if not given.
            min_relevance: lowest score of a chunk, 0 to 1; the collection's default if not given.
            max_per_document: maximum number of chunks of one document; any number if not given.
            entity: entity whose records may be used; global ones if not given. Documents are used in any case.
            include_global: with `entity`, use global records too.
            snapshot: position to read as of, the `snapshot` of an earlier answer or results; now if not given.
            grounding: what becomes of sentences of a chat model that no source supports: strict, the default, drops
                them, annotate keeps them and names them in `unsupported`.
            strictness: how confident an answer must be, 0 to 1; the server's default if not given.
            keep_for: how long the answer to a single question is stored, for `get_answer` and `list_answers`, in a
                session of its own, which `session_id` of the answer names.

        Raises:
            SessionNotFoundError: there is no such session; `SessionExpiredError` if it ended.
            SnapshotExpiredError: what was there at the snapshot is not all stored any more.

        Example:
            answer = client.collection("handbook").ask("What is a span?")
            print(answer.text)
            for citation in answer.citations:
                print(citation.marker, citation.source, citation.quote)
        """
        options = _options(k, filter, mode, min_relevance, max_per_document, entity, include_global, snapshot)
        request = self._question(question, session, options, grounding, strictness, keep_for)
        return Answer.of((await self._transport.send(Contract.ask, request)).answer)

    @StreamOperation
    async def ask_stream(
        self,
        question: str,
        *,
        session: Session | str | None = None,
        k: int | None = None,
        filter: FilterJson | None = None,  # noqa: A002 - what everybody calls it
        mode: str = "",
        min_relevance: float | None = None,
        max_per_document: int | None = None,
        entity: str | None = None,
        include_global: bool = False,
        snapshot: int | None = None,
        grounding: str = "strict",
        strictness: float | None = None,
        keep_for: timedelta | None = None,
    ) -> AsyncGenerator[AnswerEvent, None]:
        """Answer a question as `ask` does and yield events as they happen; the last one is the `Answer`.

        Raises:
            DataLossError: the stream ended without an answer.

        Example:
            from groundwire.client import Answer, TextDelta

            for event in client.collection("handbook").ask_stream("What is a span?"):
                match event:
                    case TextDelta(text):
                        print(text, end="")
                    case Answer(citations=citations):
                        print(len(citations))
        """
        options = _options(k, filter, mode, min_relevance, max_per_document, entity, include_global, snapshot)
        asked = self._question(question, session, options, grounding, strictness, keep_for)
        async with aclosing(
            self._transport.receive(Contract.ask_stream, answer_pb.AskStreamRequest(ask=asked))
        ) as responses:
            async for response in responses:
                event = answer_event(response.event)
                if event is not None:
                    yield event
                if isinstance(event, Answer):
                    return
        raise DataLossError("the stream ended without an answer", what="answer stream")

    @StreamOperation
    async def converse(
        self,
        questions: Iterable[str] | AsyncIterable[str],
        *,
        session: Session | str | None = None,
        k: int | None = None,
        filter: FilterJson | None = None,  # noqa: A002 - what everybody calls it
        mode: str = "",
        min_relevance: float | None = None,
        max_per_document: int | None = None,
        entity: str | None = None,
        include_global: bool = False,
        snapshot: int | None = None,
        grounding: str = "strict",
        strictness: float | None = None,
    ) -> AsyncGenerator[AnswerEvent | FailedQuestion, None]:
        """Answer questions of a session on one stream, one after the other as they come, and yield what happens.

        Of each question it yields what `ask_stream` does, the `Answer` last, or a `FailedQuestion` where it has none:
        the stream goes on. It ends when the questions do. The blocking client takes them in a thread of its own, so
        they may come from a generator that waits; with asyncio give an asynchronous one where it would.

        Args:
            questions: the questions, in order; at most 16 wait for their turn.
            session: the session or its id; without one a new session begins, which `Answer.session_id` names.
            k: as in `ask`, for every question; so are the others.
            filter: as in `ask`.
            mode: as in `ask`.
            min_relevance: as in `ask`.
            max_per_document: as in `ask`.
            entity: as in `ask`.
            include_global: as in `ask`.
            snapshot: as in `ask`.
            grounding: as in `ask`.
            strictness: as in `ask`.

        Raises:
            SessionNotFoundError: there is no such session; `SessionExpiredError` if it ended.

        Example:
            from groundwire.client import Answer

            questions = ["What is a span?", "And what is it of?"]
            for event in client.collection("handbook").converse(questions):
                if isinstance(event, Answer):
                    print(event.text)
        """
        if isinstance(questions, str):  # a text is iterable, too
            raise InvalidRequestError.of("questions", f"must be a list of texts, not {questions!r}")
        if isinstance(questions, AsyncIterable) and isinstance(self, SyncCaller):
            raise TypeError("a blocking client takes no asynchronous iterable")
        options = _options(k, filter, mode, min_relevance, max_per_document, entity, include_global, snapshot)
        asked: dict[str, str] = {}

        def ask(question: str) -> answer_pb.ConverseRequest:
            request = self._question(question, session, options, grounding, strictness)
            asked[request.message_id] = question
            return answer_pb.ConverseRequest(ask=request)

        async def messages() -> AsyncGenerator[answer_pb.ConverseRequest, None]:
            opening = answer_pb.ConverseOpening(create=answer_pb.CreateSessionRequest(collection=self.name))
            if session is not None:
                opening.session_id = _session_id(session)
            yield answer_pb.ConverseRequest(opening=opening)
            if isinstance(questions, AsyncIterable):
                async for question in questions:
                    yield ask(question)
            else:
                for question in questions:
                    yield ask(question)

        exchanged = self._transport.exchange(_CONVERSE_PATH, messages(), answer_pb.ConverseResponse)
        async with aclosing(exchanged) as responses:
            async for response in responses:
                if response.HasField("error"):
                    yield FailedQuestion(asked[response.message_id], from_status(response.error))
                elif response.HasField("answer_event") and (event := answer_event(response.answer_event)) is not None:
                    yield event

    @Operation
    async def document(self, reference: str) -> Document:
        """Return a document by its id or its source.

        Raises:
            DocumentNotFoundError: there is no such document.

        Example:
            document = client.collection("handbook").document("spans.md")
            print(document.title, document.metadata)
        """
        return Document.of(await self._find(reference))

    @Operation
    async def read(self, places: Sequence[Hit | Citation]) -> list[str | None]:
        """Return the stored text at the span of each hit or citation, None where it is gone; many of them in one call.

        Raises:
            TypeError: it is no list of hits and citations.

        Example:
            handbook = client.collection("handbook")
            hits = handbook.search("spans")
            assert handbook.read(hits) == [hit.text for hit in hits]
        """
        given: Any = places  # untyped callers give anything
        places = list(given) if isinstance(given, Iterable) else []
        if not isinstance(given, Iterable) or not all(isinstance(place, Hit | Citation) for place in places):
            raise TypeError(f"places must be a list of Hit or Citation, not {given!r}")
        spans = [
            library_pb.SpanReference(
                reference=document_pb2.DocumentReference(document_id=place.document_id),
                generation=place.generation,
                span=place.span.to_message(),
            )
            for place in places
        ]
        texts: list[str | None] = []
        # A response holds as many texts as fit into a message; the next request asks for the rest.
        while len(texts) < len(spans):
            request = library_pb.ReadSpansRequest(collection=self.name, spans=spans[len(texts) :][:_SPANS])
            outcomes = (await self._transport.send(Contract.read_spans, request)).outcomes
            texts += [outcome.found.text if outcome.HasField("found") else None for outcome in outcomes]
        return texts

    @StreamOperation
    async def documents(
        self,
        *,
        filter: FilterJson | None = None,  # noqa: A002 - what everybody calls it
        source_prefix: str = "",
        include_deleted: bool = False,
    ) -> AsyncGenerator[Document, None]:
        """Yield the documents in the order of their sources; with a filter those that have a chunk it matches.

        Example:
            for document in client.collection("handbook").documents(filter={"year": 2024}):
                print(document.source, document.chunk_count)
        """
        async for message in all_items.awaited(
            self,
            Contract.list_documents,
            "documents",
            collection=self.name,
            filter=filter_message(filter),
            source_prefix=source_prefix,
            include_deleted=include_deleted,
        ):
            yield Document.of(message)

    @Operation
    async def text(self, reference: str) -> str:
        """Return the canonical text, into which citations point, of a document by its id or its source.

        Example:
            handbook = client.collection("handbook")
            citation = handbook.ask("What is a span?").citations[0]
            text = handbook.text(citation.document_id)
            assert text[citation.span.start : citation.span.end] == citation.quote
        """
        # Found first: a stream fails with its first response, too late to try the reference as a source instead.
        document_id = (await self._find(reference)).document_id
        request = library_pb.GetDocumentTextRequest(
            collection=self.name, reference=document_pb2.DocumentReference(document_id=document_id)
        )
        async with aclosing(self._transport.receive(Contract.document_text, request)) as parts:
            return "".join([part.text async for part in parts])

    @Operation
    async def delete_document(self, reference: str, *, purge: bool = False) -> Deletion:
        """Delete a document by its id or its source.

        Args:
            reference: its id or its source.
            purge: delete it permanently; otherwise it can be restored.

        Raises:
            DocumentNotFoundError: there is no such document.

        Example:
            handbook = client.collection("handbook")
            handbook.ingest_text("To be forgotten.", source="old.md")
            print(handbook.delete_document("old.md").document_count)
        """
        request = pb.DeleteDocumentRequest(collection=self.name, purge=purge)
        return Deletion.of((await on_document.awaited(self, Contract.delete_document, request, reference)).receipt)

    @Operation
    async def restore_document(self, reference: str) -> Document:
        """Restore a deleted document by its id or its source.

        Raises:
            DocumentNotFoundError: there is no such document, or it was purged.

        Example:
            handbook = client.collection("handbook")
            handbook.ingest_text("To be remembered.", source="notes.md")
            handbook.delete_document("notes.md")
            print(handbook.restore_document("notes.md").source)
        """
        request = pb.RestoreDocumentRequest(collection=self.name)
        return Document.of((await on_document.awaited(self, Contract.restore_document, request, reference)).document)

    @Operation
    async def purge(
        self,
        filter: FilterJson,  # noqa: A002 - what everybody calls it
        *,
        force: bool = False,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> Purge:
        """Permanently delete the documents with a chunk that a filter matches, or only count them.

        The server runs it as an operation, which continues if the caller stops waiting.

        Args:
            filter: which documents, in the JSON form of filters; `*` for all.
            force: delete them; otherwise they are counted and the first 100 named.
            on_progress: called now and then while it runs.

        Raises:
            InvalidRequestError: the filter has no condition, or names an unknown field or operator.

        Example:
            handbook = client.collection("handbook")
            handbook.ingest_text("To be forgotten.", source="old.md", project="old")
            print(handbook.purge({"project": "old"}).sample)
            print(handbook.purge({"project": "old"}, force=True).document_count)
        """
        request = pb.PurgeDocumentsRequest(collection=self.name, filter=purge_filter(filter), force=force)
        operation = await self._transport.send(Contract.purge_documents, request)
        return Purge.of(await end_of(self._transport, operation, pb.PurgeDocumentsResponse, on_progress))

    async def _send_file(
        self, path: str | PathLike[str], source: str, on_progress: Callable[[Progress], None] | None, **said: Any
    ) -> pb.IngestDocumentResponse | pb.UploadDocumentResponse:
        file = Path(path)
        said |= {"collection": self.name, "source_uri": source or file.name}
        # One message costs less than a stream, but cannot report progress or resume.
        if on_progress is None and (await self._transport.off_loop(file.stat)).st_size <= UNARY_BYTES:
            request = pb.IngestDocumentRequest(content=await self._transport.off_loop(file.read_bytes), **said)
            return await self._transport.send(Contract.ingest_document, request)

        def report(progress: pb.UploadProgress) -> None:
            if on_progress is not None:
                on_progress(Progress.of(progress.progress))

        return await upload(self._transport, file, pb.UploadHeader(**said), report)

    async def _find(self, reference: str) -> document_pb2.Document:
        request = library_pb.GetDocumentRequest(collection=self.name)
        found: library_pb.GetDocumentResponse = await on_document.awaited(
            self, Contract.get_document, request, reference
        )
        return found.document

    def _question(
        self,
        question: str,
        session: Session | str | None,
        options: retrieval_options_pb2.RetrievalOptions,
        grounding: str,
        strictness: float | None,
        keep_for: timedelta | None = None,
    ) -> answer_pb.AskRequest:
        if not isinstance(question, str):  # of a stream it was not looked at before
            raise TypeError(f"question must be a text, not {question!r}")
        with valid_texts({"question": question}):
            return answer_pb.AskRequest(
                question=question,
                collection=self.name,
                session_id=_session_id(session),
                message_id=str(uuid.uuid4()),  # so that a retry is recognised as the same question
                options=options,
                grounding=named_value("grounding", answer_pb2.GroundingPolicy, grounding),
                strictness=strictness,
                keep_for=None if keep_for is None else to_duration(keep_for.total_seconds()),
            )


class Collection(CollectionOperations, SyncCaller):
    """A collection of a `GroundwireClient`; creating one sends nothing to the server."""


class AsyncCollection(CollectionOperations, AsyncCaller):
    """A collection of an `AsyncGroundwireClient`: the methods of `Collection`, awaited or iterated with `async for`."""


class ClientOperations(Operations):
    """The methods of a client that belong to no collection."""

    @StreamOperation
    async def collections(self) -> AsyncGenerator[CollectionInfo, None]:
        """Yield the collections by name.

        Example:
            for info in client.collections():
                print(info.name, info.document_count)
        """
        async for message in all_items.awaited(self, Contract.list_collections, "collections"):
            yield CollectionInfo.of(message)

    @Operation
    async def upload_document(
        self,
        path: Path,
        header: pb.UploadHeader,
        on_progress: Callable[[pb.UploadProgress], None] | None = None,
    ) -> ingest_result_pb2.IngestResult:
        """Ingest a file of any size with the messages of the contract; `Collection.ingest` does it without.

        Resumes after a broken connection. A file that the server already has is not sent.

        Args:
            path: the file; must not change meanwhile.
            header: collection, source_uri and options; size, hash and request id are filled in.
            on_progress: called with each report of the server.

        Example:
            from pathlib import Path

            from groundwire.api.ingest.v1.ingest_service_pb2 import UploadHeader

            client.upload_document(Path("spans.md"), UploadHeader(collection="handbook", source_uri="spans.md"))
        """
        return (await upload(self._transport, path, header, on_progress)).result

    @Operation
    async def put_chunks(
        self,
        header: pb.PutChunksHeader,
        chunks: Sequence[pb.ReadyChunk],
        text: str = "",
        *,
        timeout_s: float | None = None,
    ) -> ingest_result_pb2.IngestResult:
        """Store a document whose chunks, and perhaps vectors, you have made: all of it or nothing.

        Sent in messages of about a mebibyte, and sent again with the same request id after a broken connection.

        Args:
            header: collection, source_uri and options; the number of chunks and the request id are filled in where
                they are not set.
            chunks: in order, numbered from 0.
            text: the canonical text that their spans refer to, if you have it.
            timeout_s: time limit of each attempt instead of that of the client.

        Example:
            from groundwire.api.ingest.v1.ingest_service_pb2 import PutChunksHeader, ReadyChunk

            header = PutChunksHeader(collection="handbook", source_uri="notes")
            client.put_chunks(header, [ReadyChunk(content="A span has a start and an end.", sequence_num=0)])
        """
        return await put_chunks(self._transport, header, chunks, text, timeout_s)


def _operation_name(operation: IngestOperation | str) -> str:
    given: Any = operation
    name = given.name if isinstance(given, IngestOperation) else given
    if not isinstance(name, str):
        raise TypeError(f"operation must be an IngestOperation or its name, not {operation!r}")
    return name


def _session_id(session: Session | str | None) -> str:
    given: Any = session or ""
    session_id = given.session_id if isinstance(given, Session) else given
    if not isinstance(session_id, str):
        raise TypeError(f"session must be a Session or its id, not {session!r}")
    return session_id


def _options(
    k: int | None,
    condition: FilterJson | None,
    mode: str,
    min_relevance: float | None,
    max_per_document: int | None,
    entity: str | None,
    include_global: bool,
    snapshot: int | None,
) -> retrieval_options_pb2.RetrievalOptions:
    return retrieval_options_pb2.RetrievalOptions(
        top_k=k,
        filter=filter_message(condition),
        mode=named_value("mode", search_mode_pb2.SearchMode, mode) if mode else search_mode_pb2.SEARCH_MODE_UNSPECIFIED,
        min_relevance=min_relevance,
        max_per_document=max_per_document,
        entity=entity or "",
        include_global=include_global,
        snapshot=snapshot,
    )
