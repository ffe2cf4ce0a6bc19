"""The catalog as use cases see it: one attribute for each aggregate."""

from groundwire.catalog.audit import Audit
from groundwire.catalog.chunks import Chunks, DuplicateChunks
from groundwire.catalog.collections import Collections
from groundwire.catalog.database import Database
from groundwire.catalog.deletions import Deletions, Restorations
from groundwire.catalog.documents import Documents
from groundwire.catalog.idempotency import Ledger
from groundwire.catalog.index_builds import IndexBuilds
from groundwire.catalog.inspection import Inspection
from groundwire.catalog.lexical_index import LexicalCheck
from groundwire.catalog.operations import Operations
from groundwire.catalog.outbox import Outbox
from groundwire.catalog.records import RecordAccesses, Records
from groundwire.catalog.texts import Texts
from groundwire.catalog.uploads import Uploads
from groundwire.catalog.vectors import VectorCache


class Catalog:
    """What is stored in an open catalog.

    One for each service of a process: `documents` knows which generations are being written through it, and `accesses`
    which reads it has not counted yet.
    """

    def __init__(self, database: Database) -> None:
        self.database = database
        self.audit = Audit(database)
        self.collections = Collections(database)
        self.documents = Documents(database)
        self.chunks = Chunks(database)
        self.duplicates = DuplicateChunks(database)
        self.texts = Texts(database)
        self.embeddings = VectorCache(database)
        self.lexical_check = LexicalCheck(database)
        self.records = Records(database)
        self.accesses = RecordAccesses(database)
        self.restorations = Restorations(database)
        self.deletions = Deletions(database)
        self.outbox = Outbox(database)
        self.index_builds = IndexBuilds(database)
        self.ledger = Ledger(database)
        self.operations = Operations(database)
        self.uploads = Uploads(database)
        self.inspection = Inspection(database)
