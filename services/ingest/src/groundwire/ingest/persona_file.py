"""A file that describes the assistant, stored as persona records: one for each part below a heading."""

import re
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import structlog

from groundwire.ingest.collections import CollectionUpkeep
from groundwire.ingest.housekeeping import Job, Subject
from groundwire.ingest.parsing.parsed_document import Original, Parser, ParseRules
from groundwire.ingest.records import NewRecord, RecordUpkeep
from groundwire.kernel.budget import Budget
from groundwire.kernel.collection import PROFILES, ProfileName
from groundwire.kernel.document import DocumentFields, DocumentFormat
from groundwire.kernel.filters import And, Comparator, Comparison, Like
from groundwire.kernel.identity import Identity

ID_PREFIX = "persona.md#"
"""What the ids of the records of the file begin with, whatever its name is."""
_LOOK_EVERY_S = 60.0
_LOAD_S = 120.0
_PER_WRITE = 100
_MAX_TOPIC_CHARS = 200

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class PersonaFile:
    """Loads a Markdown or text file at the start, and again when it changes, into a collection made if need be.

    Ids are made of headings, so that a part replaces what it was and loading the file again adds nothing (requirement
    S0-13); what is not in the file any more goes. The version of all of them is the time of the file.
    """

    path: Path
    collection: str
    parser: Parser
    collections: CollectionUpkeep
    records: RecordUpkeep
    loaded: float | None = field(default=None, init=False)

    def job(self) -> Job:
        subject = Subject(str(self.path), Identity().tenant, self.collection)
        return Job(
            "persona_file",
            self._load,
            lambda: [] if self.path.stat().st_mtime == self.loaded else [subject],
            every_s=_LOOK_EVERY_S,
            timeout_s=_LOAD_S,
        )

    def _load(self, _subject: Subject, budget: Budget) -> int:
        identity, settings = Identity(), PROFILES[ProfileName.CONVERSATIONS]
        # Before the file is read: what changes in between is then loaded again.
        modified = self.path.stat().st_mtime
        if self.collections.catalog.collections.find(identity.tenant, self.collection) is None:
            self.collections.create(identity.tenant, self.collection, ProfileName.CONVERSATIONS, settings, budget)
        # Imported late: importing pydantic takes long, and few servers have such a file.
        from groundwire.schemas.kinds import with_z  # noqa: PLC0415 - see above
        from groundwire.schemas.registry import check_metadata  # noqa: PLC0415 - see above

        content, time = self.path.read_bytes(), datetime.fromtimestamp(modified, UTC)
        kind = DocumentFormat.TEXT if self.path.suffix == ".txt" else DocumentFormat.MARKDOWN
        rules = ParseRules(kind, settings.chunking, None, file_name=self.path.name, field="persona_file")
        times: Counter[str] = Counter()
        parts = []
        for chunk in self.parser.parse(Original(len(content), content), rules, budget).chunks:
            topic = chunk.headings[-1].strip().casefold()[:_MAX_TOPIC_CHARS] if chunk.headings else ""
            name = re.sub(r"[^a-z0-9]+", "-", topic)[:80].strip("-") or "part"
            times[name] += 1
            said = {"type": "persona", "timestamp": time, "version": with_z(time), "topic": topic or None}
            record = check_metadata("persona", said)
            # Numbered by heading and not by place, so that a new part above leaves the ids of the others alone.
            record_id = f"{ID_PREFIX}{name}" + (f"-{times[name]}" if times[name] > 1 else "")
            parts.append(NewRecord(record_id, chunk.content, chunk.token_count, DocumentFields(record=record)))
        for start in range(0, len(parts), _PER_WRITE):
            self.records.upsert(identity, self.collection, parts[start : start + _PER_WRITE], budget)
        of_file = And((Comparison("record_type", Comparator.EQ, "persona"), Like("record_id", f"{ID_PREFIX}%")))
        there = self.records.selected(identity, self.collection, of_file, include_deleted=False)
        gone = {record.record_id for record in there} - {part.record_id for part in parts}
        if gone:
            self.records.delete(identity, self.collection, sorted(gone), budget, permanent=True)
        self.loaded = modified
        _log.info("loaded the persona file", collection=self.collection, parts=len(parts), removed=len(gone))
        return len(parts)
