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
    definition: float = 0.2
    heading_is_subject: float = 0.03
    headed: float = 0.05
    opens: float = 0.06
    unmet: float = 0.35
    continues_best: float = 0.03
    leaning: float = -0.12
    announcement: float = -0.12
    exclamation: float = -0.05
    no_full_stop: float = -0.06
    label: float = -0.08
    unasked_label: float = -0.2
    whole_list: float = 0.07
    unasked_list: float = -0.05
    unasked_column: float = -0.20
    unasked_field: float = -0.20
    joined: float = -0.02
    example: float = 0.15
    own: float = 0.25
    counts_asked: float = 0.12
    code: float = 0.12
    unasked_code: float = -0.15
    told_code: float = -0.06


@dataclass(frozen=True, slots=True)
class SupportWeights:
    """Weights of the logistic function that says how likely an excerpt answers the question.

    A logistic regression over the excerpts that lead, on the even questions of SQuAD v2.0 dev (a half of them), CLAP NQ
    dev, Northwind and 103 questions of newcomers to eight corpora; the four have equal weight. What it learns is the
    mean of "the question has an answer" and "the excerpt is right": fitted to the first alone it orders answers by
    their rightness worse, to the second alone it refuses more of what handbooks say. Then it was scaled so that it is
    the share of right answers (Platt). Asked fields, documents named by their number, headings that name what is to be
    defined, and what users said of themselves are too few in the sets: their weights were set by reading answers.

    The words that question and sentence share say nothing about whether SQuAD's questions can be answered: those that
    cannot share more. Twenty further measures of them, such as the share in the sentence, the rarest word that is
    missing, the window that holds all, pairs of words, their order, negation and names of the sentence alone, raise the
    area under the curve of SQuAD by 0.01 when fitted on it alone, and lower that of CLAP NQ by 0.1.
    """

    bias: float = -4.7
    similarity: float = 2.67
    relevance: float = 4.17
    coverage_around: float = 1.25
    missing_number: float = -1.28
    missing_name: float = -0.98
    missing_negation: float = -1.97
    missing_kind: float = -0.2
    asked_field: float = 1.97
    named: float = 1.77
    own: float = 1.97
    headed: float = 0.8
    lead: float = 0.69


RANKING = RankingWeights()
SUPPORT = SupportWeights()

MIN_SUPPORT = 0.4
"""Support below which the generator abstains, unless the request or the setting says otherwise.

`docs/explanation/answers-and-citations.md` has what it answers, and what wrongly.
"""

LEAD_SUPPORT = 0.5
"""How much the support of an excerpt counts against its score where it is to lead the answer."""

TESTED_PASSAGES = 5
"""Passages whose best excerpts may lead an answer."""

MAX_LEAD = 0.2
"""Lead over the excerpts of other passages from which more of it tells nothing: they are about something else."""

COMPARED_BY_DATE = 8
"""Excerpts of dated documents that are compared with one another, the best ones."""

SUMMARY_EXCERPTS = 6
"""Most excerpts of a summary."""

LABEL_WORDS = 7
"""List items of fewer words that end without a full stop are labels of things rather than statements."""

MAX_EXCERPTS = 3
"""Most excerpts of an answer."""

SAME_PASSAGE_DROP = 0.13
OTHER_PASSAGE_DROP = 0.08
"""How far below the best excerpt's score a further one may be: beside it, and elsewhere."""

SHORT_LEAD_WORDS = 8
"""Words up to which a sentence that is to say what something is comes together with one that leans on it."""

NEAR_DUPLICATE = 0.7
"""Share of common stems (Jaccard) from which two excerpts say the same."""

MAX_CORROBORATIONS = 2
"""Further documents that a claim is cited from when they say the same."""

MAX_CANDIDATES = 24
"""Excerpts that are embedded for one answer, the best without similarity: embedding them is most of its time.

32 and 64 choose no better (CLAP NQ, Northwind: equal within 0.015 in every figure); 16 answer 0.02 of CLAP NQ less.
"""
