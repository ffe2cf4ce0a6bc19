"""Every number the extractive generator decides by, with where it comes from."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RankingWeights:
    """Shares of the parts of a sentence's score; see `groundwire.answer.extractive.scoring`.

    The first three began as a softmax regression of "contains the gold answer" over the sentences of the five best
    paragraphs (SQuAD v2.0 dev, 1,868 answerable questions; 5.0 : 7.5 : 15 : 1). A smaller share for relevance costs
    nothing there (the best sentence contains the gold answer for 0.72 of the questions, one of up to three for 0.86;
    similarity alone reaches 0.60, coverage alone 0.67) and keeps one long passage from shutting out the rest.
    The boni and penalties were set by reading answers to questions about a programming handbook.
    """

    similarity: float = 0.30
    coverage: float = 0.35
    relevance: float = 0.30
    kind_match: float = 0.035
    definition: float = 0.15
    heading_is_subject: float = 0.03
    follows_best: float = 0.03
    dangling_start: float = -0.04
    announcement: float = -0.12
    reference_marks: float = -0.04
    exclamation: float = -0.05
    no_full_stop: float = -0.06
    table_row: float = -0.03


@dataclass(frozen=True, slots=True)
class SupportWeights:
    """Shares of the parts of the support that decides whether to answer at all.

    Similarity and relevance separate answerable from unanswerable questions best (AUC 0.63 and 0.64 on SQuAD v2.0
    dev); coverage of the question by the passage says nothing there, where every question is about its
    paragraph, but everything for questions about another subject. A number, a proper noun or a negation of
    the question that the passage does not have speaks against it, and so does a best sentence without a
    name, time or number when the question asks for one.
    """

    similarity: float = 0.5
    relevance: float = 0.25
    coverage: float = 0.25
    missing_number: float = -0.15
    missing_name: float = -0.08
    missing_negation: float = -0.08
    missing_kind: float = -0.06


RANKING = RankingWeights()
SUPPORT = SupportWeights()

MIN_SUPPORT = 0.50
"""Support below which the generator abstains, unless the setting says otherwise.

On SQuAD v2.0 dev, where unanswerable questions are made to look answerable, F1 of answers that contain the gold
answer is flat from 0.35 to 0.50 (0.57) and falls above; 67 % of the unanswerable ones are still answered at 0.50,
25 % at 0.65, where F1 is 0.44. On a programming handbook 0.50 was set between the questions it covers (41 of 42 that
found anything are answered) and those it does not (1 of 13); the same questions set it, so expect less of others.
"""

MAX_SENTENCES = 3
"""Sentences of an answer: the third adds 5 points of gold answers (SQuAD v2.0 dev), a fourth tires the reader."""

SCORE_DROP = 0.13
"""How far below the best sentence's score a further one may be."""

NEAR_DUPLICATE = 0.7
"""Share of common stems (Jaccard) from which two sentences say the same."""

MAX_CORROBORATIONS = 2
"""Further documents that a claim is cited from when they say the same."""

MAX_CANDIDATES = 64
"""Sentences that are embedded for one answer, the best by words and relevance: embedding them is most of its time."""

MIN_SENTENCE_WORDS = 3
MAX_SENTENCE_CHARS = 700
MAX_CODE_CHARS = 900
"""Shorter ones are labels, longer ones are no sentences."""
