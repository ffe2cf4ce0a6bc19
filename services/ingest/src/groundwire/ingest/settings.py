"""Settings of the ingest service; every field is described in docs/reference/settings.md."""

from pathlib import Path

from pydantic import Field, FilePath
from pydantic_settings import BaseSettings, SettingsConfigDict


class IngestSettings(BaseSettings):
    """What a document may cost, and how often the service tidies up.

    Uploads that are not complete wait in the folder `staging`, below the data folder by default. A tenant may have
    `max_staged_bytes` of them, and `max_unfinished_operations`. Taking a document apart
    may take `parser_base_s` seconds of the processor and `parser_s_per_mib` for each MiB, in one of `parser_processes`
    processes of at most `parser_memory_mib` MiB; one that uses none for `parser_stall_s` seconds is replaced. An office
    document may inflate to `parser_inflated_mib` MiB in `parser_zip_entries` entries, none of them to more than
    `parser_zip_ratio` times its size; a PDF may have `parser_pages` pages. `embed_batch_tokens` are embedded between
    two checks of the deadline.
    Files of a vector engine that hold deleted texts are rewritten once for all deletions, when there was none for
    `scrub_after_quiet_s` seconds, or the first of them is `scrub_within_s` seconds old.
    `persona_file` is stored as persona records in `persona_collection`.
    """

    model_config = SettingsConfigDict(env_prefix="GROUNDWIRE_INGEST_", frozen=True, extra="ignore")

    max_document_bytes: int = Field(default=64 * 1024 * 1024, ge=1, le=1024 * 1024 * 1024)
    staging: Path | None = None
    max_staged_bytes: int = Field(default=4 * 1024 * 1024 * 1024, ge=1)
    max_unfinished_operations: int = Field(default=10_000, ge=1)
    concurrent_documents: int = Field(default=8, ge=1, le=64)
    parser_processes: int = Field(default=4, ge=2, le=64)
    parser_stall_s: float = Field(default=10.0, gt=0, le=86400)
    parser_base_s: float = Field(default=9.0, gt=0, le=86400)
    parser_s_per_mib: float = Field(default=8.0, ge=0, le=86400)
    parser_memory_mib: int = Field(default=4096, ge=512, le=1 << 20)
    parser_memory_base_mib: int = Field(default=512, ge=64, le=1 << 20)
    parser_memory_per_byte: int = Field(default=64, ge=0, le=1 << 20)
    parser_inflated_mib: int = Field(default=256, ge=1)
    parser_zip_entries: int = Field(default=10_000, ge=1)
    parser_zip_ratio: int = Field(default=200, ge=1)
    parser_pages: int = Field(default=20_000, ge=1)
    embed_batch_tokens: int = Field(default=8192, ge=1)
    sweep_every_s: float = Field(default=30.0, gt=0, le=86400)
    scrub_after_quiet_s: float = Field(default=10.0, ge=0, le=86400)
    scrub_within_s: float = Field(default=300.0, ge=0, le=86400)
    persona_file: FilePath | None = None
    persona_collection: str = "conversations"
