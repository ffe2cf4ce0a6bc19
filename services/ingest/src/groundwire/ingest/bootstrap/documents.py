"""The use cases of documents and chunks, put together."""

from collections.abc import Callable

from groundwire.ingest.adapters.parser_pool import ParserPool
from groundwire.ingest.adapters.parser_process import ParserLimits
from groundwire.ingest.admit_document import AdmitDocument
from groundwire.ingest.bootstrap.foundation import Foundation
from groundwire.ingest.changes import Changes
from groundwire.ingest.ingest_document import IngestDocument
from groundwire.ingest.keyed_locks import MAX_WAITING, KeyedLocks, Slots
from groundwire.ingest.known_sources import KnownSources
from groundwire.ingest.parsing.source_text import ReadingLimits
from groundwire.ingest.plan_ingest import PlanIngest
from groundwire.ingest.ports import Parser
from groundwire.ingest.prepare_document import PrepareDocument
from groundwire.ingest.put_chunks import PutChunks
from groundwire.ingest.servicer.calls import UseCases
from groundwire.ingest.settings import IngestSettings
from groundwire.ingest.skip_duplicates import SkipDuplicates
from groundwire.ingest.write_generation import WriteGeneration
from groundwire.kernel.collection import Collection

_MIB = 1 << 20


def parser_of(base: Foundation) -> ParserPool:
    """Return the processes that take documents apart, not yet started."""
    return ParserPool(base.embedder.tokenizer.definition, _parser_limits(base.settings), base.settings.parser_processes)


def ingest_document(base: Foundation, parser: Parser, after_write: Callable[[Collection], None]) -> IngestDocument:
    """Return what takes documents in."""
    write_generation = WriteGeneration(
        base.documents,
        base.builds,
        base.vectors,
        base.embed_chunks,
        SkipDuplicates(base.duplicates),
        base.embedder.tokenizer.name,
        Slots(base.settings.concurrent_documents),
    )
    prepare = PrepareDocument(
        AdmitDocument(base.collections, base.embedder.identity, base.settings.max_document_bytes),
        KnownSources(base.documents),
        base.sources,
        parser,
    )
    return IngestDocument(prepare, write_generation, KeyedLocks(MAX_WAITING), after_write)


def use_cases(base: Foundation, ingest: IngestDocument, changes: Changes) -> UseCases:
    """Return what the calls on documents and chunks use."""
    return UseCases(
        ingest_document=ingest,
        plan_ingest=PlanIngest(
            ingest.prepare,
            ingest.write_generation.skip_duplicates,
            ingest.write_generation.embed_chunks,
            base.chunks,
        ),
        put_chunks=PutChunks(
            admit=ingest.prepare.admit,
            known=ingest.prepare.known,
            cache=base.cache,
            write_generation=ingest.write_generation,
            locks=ingest.locks,
            tokenizer=base.embedder.tokenizer,
            after_write=ingest.after_write,
        ),
        changes=changes,
        deletions=base.deletions,
        remember=base.remember,
    )


def _parser_limits(settings: IngestSettings) -> ParserLimits:
    return ParserLimits(
        base_s=settings.parser_base_s,
        s_per_mib=settings.parser_s_per_mib,
        memory_base_bytes=settings.parser_memory_base_mib * _MIB,
        memory_per_byte=settings.parser_memory_per_byte,
        memory_bytes=settings.parser_memory_mib * _MIB,
        stall_s=settings.parser_stall_s,
        reading=ReadingLimits(
            zip_entries=settings.parser_zip_entries,
            inflated_bytes=settings.parser_inflated_mib * _MIB,
            zip_ratio=settings.parser_zip_ratio,
            pages=settings.parser_pages,
        ),
    )
