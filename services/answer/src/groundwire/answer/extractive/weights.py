"""Every number the extractive generator decides by, with where it comes from."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RankingWeights:
    """Shares of the parts of an excerpt's score; see `groundwire.answer.extractive.scoring`.

    The first five began as a softmax regression of "answers the question" over the excerpts of the best passages
    (SQuAD v2.0 dev, CLAP NQ dev, Northwind; half of the questions of each, with equal weight: 4.2, 4.6, 1.8 of 4.6,
    3.0, 1.4). Similarity was raised, and the rank lowered, after reading answers to questions about three handbooks,
    where many passages are about much the same. The boni and penalties were set by reading such answers.
    """

    similarity: float = 0.42
    coverage: float = 0.34
    around: float = 0.4
    relevance: float = 0.25
    rank: float = 0.04
    kind_match: float = 0.035
    definition: float = 0.14
    heading_is_subject: float = 0.03
    unmet: float = 0.35
    continues_best: float = 0.03
    leaning: float = -0.12
    announcement: float = -0.12
    exclamation: float = -0.05
    no_full_stop: float = -0.06
    label: float = -0.08
    whole_list: float = 0.07
    unasked_list: float = -0.05
    unasked_column: float = -0.20
    joined: float = -0.02
    code: float = 0.12
    unasked_code: float = -0.15


@dataclass(frozen=True, slots=True)
class SupportWeights:
    """Weights of the logistic function that says how likely an excerpt answers the question.

    A logistic regression on SQuAD v2.0 dev (250 questions), CLAP NQ dev (204), Northwind (86) and 88 questions about
    three handbooks whose answers were graded by a reader, with equal weight of the four; held out, its area under the
    curve is 0.67, 0.89, 0.93 and 0.62. The weight of a missing name was set by hand, because a swapped name is what
    similarity does not see.
    """

    bias: float = -4.1
    similarity: float = 4.8
    relevance: float = 1.8
    coverage_around: float = 1.5
    missing_number: float = -1.2
    missing_name: float = -0.6
    missing_negation: float = -1.2
    missing_kind: float = -0.3


RANKING = RankingWeights()
SUPPORT = SupportWeights()

MIN_SUPPORT = 0.42
"""Probability below which the generator abstains, unless the setting says otherwise.

On the questions that the weights were fitted on it answers 0.92 of those that CLAP NQ can answer and 0.33 of the
others, all that Northwind's papers can answer and 0.19 of the others, and nine of ten about handbooks.
"""

LABEL_WORDS = 7
"""List items of fewer words that end without a full stop are labels of things rather than statements."""

MAX_EXCERPTS = 3
"""Most excerpts of an answer."""

SAME_PASSAGE_DROP = 0.09
OTHER_PASSAGE_DROP = 0.04
"""How far below the best excerpt's score a further one may be: beside it, and elsewhere."""

NEAR_DUPLICATE = 0.7
"""Share of common stems (Jaccard) from which two excerpts say the same."""

MAX_CORROBORATIONS = 2
"""Further documents that a claim is cited from when they say the same."""

MAX_CANDIDATES = 32
"""Excerpts that are embedded for one answer, the best without similarity: embedding them is most of its time.

64 choose no better (SQuAD v2.0, CLAP NQ, Northwind: equal within 0.015 in every figure).
"""
