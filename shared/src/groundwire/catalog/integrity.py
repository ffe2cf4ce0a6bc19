"""Checks that the file is sound and agrees with itself; what `CheckStore` asks of the catalog."""

from sqlalchemy import Connection
from sqlalchemy.exc import DatabaseError

from groundwire.catalog.database import Database

_RULES = {
    "a full-text row without a searchable chunk": """
        SELECT count(*) FROM chunks_fts_docsize WHERE id NOT IN (SELECT search_key FROM searchable_chunks)""",
    "a searchable chunk without a full-text row": """
        SELECT count(*) FROM searchable_chunks WHERE search_key NOT IN (SELECT id FROM chunks_fts_docsize)""",
    "a live generation that has not the chunks it counts": """
        SELECT count(*) FROM generations AS g WHERE state = 'LIVE' AND chunk_count <>
        (SELECT count(*) FROM chunks AS c WHERE c.generation_key = g.generation_key)""",
    "a superseded generation that still has chunks and is not kept": """
        SELECT count(*) FROM generations WHERE state = 'SUPERSEDED' AND superseded_time IS NULL AND EXISTS
        (SELECT 1 FROM chunks AS c WHERE c.generation_key = generations.generation_key)""",
    "a gap in the sequence numbers of a generation": """
        SELECT count(*) FROM (SELECT 1 FROM chunks GROUP BY generation_key
        HAVING min(sequence_num) <> 0 OR max(sequence_num) <> count(*) - 1)""",
    "a generation that has not the text it counts": """
        SELECT count(*) FROM generations AS g WHERE total_chars <> coalesce(
        (SELECT sum(length(content)) FROM text_segments AS s WHERE s.generation_key = g.generation_key), 0)""",
    "a visible document whose live generation is another one": """
        SELECT count(*) FROM documents AS d WHERE live_generation > 0 AND live_generation IS NOT
        (SELECT generation FROM generations AS g WHERE g.document_key = d.document_key AND state = 'LIVE')""",
    "a live generation of a document that is not visible": """
        SELECT count(*) FROM documents AS d JOIN generations USING (document_key)
        WHERE d.live_generation = 0 AND state = 'LIVE'""",
    "an invisible document without a generation": """
        SELECT count(*) FROM documents AS d WHERE live_generation = 0 AND NOT EXISTS
        (SELECT 1 FROM generations AS g WHERE g.document_key = d.document_key)""",
}


class Integrity:
    """Reads the whole file: seconds for a large one, during which nothing is written."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def problems(self) -> list[str]:
        """Return what is wrong, one sentence each; empty for a sound catalog."""
        # On the writer's connection: FTS5 checks against the structure that its connection last read.
        return self._database.write(_problems)


def _problems(connection: Connection) -> list[str]:
    found = [
        f"{said}: {count}" for said, rule in _RULES.items() if (count := connection.exec_driver_sql(rule).scalar_one())
    ]
    said_by_sqlite = connection.exec_driver_sql("PRAGMA integrity_check").scalars()
    found += [f"integrity check: {said}" for said in said_by_sqlite if said != "ok"]
    broken = connection.exec_driver_sql("PRAGMA foreign_key_check").all()
    found += [f"broken reference from {row[0]} to {row[2]}" for row in broken]
    try:
        connection.exec_driver_sql("INSERT INTO chunks_fts (chunks_fts, rank) VALUES ('integrity-check', 1)")
    except DatabaseError:
        found.append("the full-text index differs from the live chunks")
    return found
