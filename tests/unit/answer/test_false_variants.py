"""True sentences with one thing changed in each: number, date, name, negation or direction."""

import pytest

from groundwire.answer.grounding.grounder import MIN_SUPPORT, GroundedClaim, Verdict
from tests.unit.answer.builders import ground, make_passage

_SOURCE = """\
Kestrel was founded on 12 March 1998 by Maria Lindqvist in Gothenburg. The company employs about 4,200 people.
Its revenue increased by 14 percent to 3.5 million euros in 2021. The first office opened in Oslo in June 2003.
Deleted files are not removed from backups for 30 days. Every upload is scanned before it is stored.
A search times out after 20 seconds, and a failed call is retried 3 times. Passwords must have at least 12 characters.
The free plan does not include support by telephone. Uploads of guests are never published.
Administrators can restore a document within 90 days. The committee rejected the proposal of Denmark in October 2016.
The largest warehouse is in northern Germany. Peter Novak led the team of twenty-five engineers.
"""

TRUE = [
    "Kestrel was founded on 12 March 1998 by Maria Lindqvist.",
    "Its revenue increased by 14% to 3,500,000 euros in 2021.",
    "Files that were deleted are not removed from backups for 30 days.",
    "A search times out after twenty seconds.",
    "The free plan doesn't include support by telephone.",
    "The committee rejected Denmark's proposal in October 2016.",
    "Peter Novak led a team of 25 engineers.",
    "The largest warehouse is in northern Germany.",
]

FALSE = [
    "Kestrel was founded on 12 March 1989 by Maria Lindqvist in Gothenburg.",
    "Kestrel was founded on 21 March 1998 by Maria Lindqvist in Gothenburg.",
    "Kestrel was founded on 12 March 1998 by Anna Bergman in Gothenburg.",
    "Kestrel was founded on 12 March 1998 by Maria Lindqvist in Stockholm.",
    "The company employs about 2,400 people.",
    "Its revenue decreased by 14 percent to 3.5 million euros in 2021.",
    "Its revenue increased by 40 percent to 3.5 million euros in 2021.",
    "Its revenue increased by 14 percent to 3.5 billion euros in 2021.",
    "Its revenue increased by 14 percent to 3.5 million euros in 2012.",
    "The first office opened in Oslo in July 2003.",
    "The last office opened in Oslo in June 2003.",
    "The first office opened in Bergen in June 2003.",
    "Deleted files are removed from backups for 30 days.",
    "Deleted files are not removed from backups for 60 days.",
    "Every upload is scanned after it is stored.",
    "Every upload is never scanned before it is stored.",
    "A search times out after 20 minutes.",
    "A search times out after 30 seconds.",
    "A failed call is retried 20 times.",
    "Passwords must have at most 12 characters.",
    "The free plan includes support by telephone.",
    "Uploads of guests are always published.",
    "Administrators cannot restore a document within 90 days.",
    "The committee accepted the proposal of Denmark in October 2016.",
    "The committee rejected the proposal of Norway in October 2016.",
    "The smallest warehouse is in northern Germany.",
    "The largest warehouse is in southern Germany.",
    "Peter Novak led the team of fifty-two engineers.",
    "Peter Novak left the team of twenty-five engineers.",
    "Administrators can restore a folder within 90 days.",
    "Paul Novak led the team of twenty-five engineers.",
]
"""What rules cannot see is missing here on purpose: two names that have changed places."""


def _grounded(text: str) -> GroundedClaim:
    (grounded,) = ground(text, make_passage(_SOURCE, title="Kestrel"))
    return grounded


@pytest.mark.parametrize("text", TRUE)
def test_what_the_source_says_is_supported_in_other_words_too(text: str) -> None:
    grounded = _grounded(text)
    assert grounded.discrepancies == ()
    assert grounded.verdict is Verdict.SUPPORTED
    assert grounded.support >= MIN_SUPPORT


@pytest.mark.parametrize("text", FALSE)
def test_a_sentence_with_one_thing_changed_is_not_supported(text: str) -> None:
    grounded = _grounded(text)
    assert grounded.discrepancies != ()
    assert grounded.verdict in {Verdict.UNSUPPORTED, Verdict.CONTRADICTED}
    assert grounded.support < MIN_SUPPORT
    assert grounded.sources == ()
