"""The built-in extractor behind the port."""

from groundwire.kernel.budget import Budget
from groundwire.retrieve.domain.self_query.question import Extraction, Question
from groundwire.retrieve.domain.self_query.rules import RULES, extract_by_rules


class RuleExtractor:
    """Derives filters by rules; never fails."""

    name = RULES

    def extract(self, question: Question, budget: Budget) -> Extraction | None:
        """Return the extraction."""
        budget.check()
        return extract_by_rules(question)

    def close(self) -> None:
        """Do nothing."""
