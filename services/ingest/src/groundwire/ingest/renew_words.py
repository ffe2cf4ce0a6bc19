"""Write the full-text indexes anew that an earlier version has written, which cut texts into words by other rules."""

import structlog

from groundwire.catalog.lexical_check import LexicalCheck
from groundwire.ingest.housekeeping import Job, Subject
from groundwire.kernel.budget import Budget

_RENEW_S = 6 * 3600.0
"""Longer than millions of chunks take."""

_log = structlog.get_logger(__name__)


class RenewWords:
    """Goes through the collections behind the calls, once; what a stop interrupts begins again at the next start.

    Searches go on meanwhile, in an index of which a part is new. Until its end they may miss what the new rules find.
    """

    def __init__(self, full_text: LexicalCheck) -> None:
        self._full_text = full_text
        self._waiting: dict[str, Subject] = {}

    def begin(self) -> None:
        """Find out which collections there are to do, before anything is written."""
        found = self._full_text.written_by_other_rules()
        self._waiting = {uid: Subject(uid, tenant, name) for uid, tenant, name in found}
        if not found:
            self._full_text.note_rules()

    def job(self) -> Job:
        """Return the job, which takes half a second for a thousand chunks."""
        return Job("words", self._renew, lambda: list(self._waiting.values()), timeout_s=_RENEW_S)

    def _renew(self, subject: Subject, budget: Budget) -> int:
        self._full_text.rebuild(subject.tenant, subject.collection, budget)
        del self._waiting[subject.key]
        if not self._waiting:
            self._full_text.note_rules()
            _log.info("renewed the full-text indexes of an earlier version")
        return 1
