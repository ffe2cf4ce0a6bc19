"""The built-in extractor behind the port."""

from groundwire.kernel.budget import Budget
from groundwire.retrieve.domain.self_query.question import Extraction, Question


class RuleExtractor:
    """Derives filters by rules; never fails."""

    name = "rules"

    def extract(self, question: Question, budget: Budget) -> Extraction | None:
        """Return the extraction."""
        from groundwire.retrieve.domain.self_query.rules import extract_by_rules  # noqa: PLC0415 - no start waits for it

        budget.check()
        return extract_by_rules(question)

    def close(self) -> None:
        """Do nothing."""
