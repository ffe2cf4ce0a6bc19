"""Two parser processes, so that a large document does not make the small ones wait."""

from groundwire.ingest.adapters.parser_process import ParserLimits, ParserProcess
from groundwire.ingest.domain.parsing import ParsedDocument, ParseRules
from groundwire.ingest.ports import Original
from groundwire.kernel.budget import Budget
from groundwire.kernel.embedder import TokenizerDefinition

LARGE_BYTES = 1 << 20
"""Above this size taking a document apart lasts longer than half a second."""


class ParserLanes:
    """A Parser with one process for documents up to 1 MiB and one, started when needed, for larger ones."""

    def __init__(self, tokenizer: TokenizerDefinition, limits: ParserLimits) -> None:
        self._small = ParserProcess(tokenizer, limits)
        self._large = ParserProcess(tokenizer, limits)

    def start(self) -> None:
        """Start the process for small documents ahead of the first one."""
        self._small.start()

    def parse(self, original: Original, rules: ParseRules, budget: Budget) -> ParsedDocument:
        """Return what a document holds; see `Parser.parse`."""
        lane = self._large if original.size_bytes > LARGE_BYTES else self._small
        return lane.parse(original, rules, budget)

    def close(self) -> None:
        """Kill both processes; documents in work fail."""
        self._small.close()
        self._large.close()
