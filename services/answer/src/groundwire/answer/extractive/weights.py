"""Every number the extractive generator decides by, with where it comes from."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RankingWeights:
    """Shares of the parts of an excerpt's score; see `groundwire.answer.extractive.scoring`.

    The first five began as a softmax regression of "answers the question" over the excerpts of the best passages
    (SQuAD v2.0 dev, CLAP NQ dev, Northwind; half of the questions of each, with equal weight: 4.2, 4.6, 1.8 of 4.6,
    3.0, 1.4). Similarity was raised, and the rank lowered, after reading answers to questions about three handbooks,
    where many passages are about much the same. The boni and penalties were set by reading such answers. Length, rank,
    kind and opens were then moved half the way to a second fit, over 392 questions of SQuAD, CLAP NQ and
    `benchmarks/natural_questions.py`; five-fold, it puts the right excerpt first for 0.77, 0.82 and 0.69 of them (0.76,
    0.79, 0.68 before). A third fit, over 427 questions, gains nothing held out: relevance, definition, opens and
    example were moved a little its way, and five parts whose weights it takes for 0 are gone. Similarity to the
    sentence alone, to its neighbours, and to the question put as a statement add nothing to it.
    """

    similarity: float = 0.42
    coverage: float = 0.34
    length: float = 0.024
    around: float = 0.4
    relevance: float = 0.3
    rank: float = 0.06
    kind_match: float = 0.06
    reason: float = 0.05
    definition: float = 0.25
    opens: float = 0.1
    headed: float = 0.08
    purpose: float = 0.2
    command: float = 0.12
    unmet: float = 0.35
    leaning: float = -0.1
    announcement: float = -0.2
    note_of_change: float = -0.3
    back_matter: float = -0.3
    unmet_negation: float = -0.2
    undoing: float = -0.15
    unasked_label: float = -0.2
    whole_list: float = 0.09
    tip: float = -0.08
    empty: float = -0.2
    unasked_list: float = -0.05
    unasked_column: float = -0.20
    asked_cell: float = 0.2
    joined: float = -0.02
    example: float = 0.07
    own: float = 0.25
    titled: float = 0.08
    amount: float = 0.12
    code: float = 0.12
    unasked_code: float = -0.15
    told_code: float = -0.06


@dataclass(frozen=True, slots=True)
class SupportWeights:
    """Weights of the logistic function that says how likely an excerpt answers the question.

    A logistic regression of "right" over the best excerpt of each of the five best passages, then scaled so that the
    confidence of whole answers is calibrated (Platt). The questions are those of SQuAD v2.0 dev (250), CLAP NQ dev
    (204) and Northwind (86), each asked of chunks of 112 and of 512 tokens, and 62 about three handbooks whose answers
    were graded by a reader; the four have equal weight. Held out, half by half, the calibration error of the confidence
    is 0.039, and its area under the curve 0.78 for right answers against all others. Relevance and lead were held down,
    because they mean less where many passages are about much the same, and missing numbers, which similarity does not
    see, were held up: a fit to 1,200 questions that gives relevance 4.17 refuses what handbooks say in short sentences.
    Asked fields, dates, things named by their number, identifiers, headings, definitions, what users said of
    themselves, and missing definitions, dates, amounts, reasons, steps and things asked for are too few in the sets:
    their weights were set by reading answers.

    The words that question and sentence share say nothing about whether SQuAD's questions can be answered: those that
    cannot share more. Twenty further measures of them, such as the share in the sentence, the rarest word that is
    missing, the window that holds all, pairs of words, their order, negation and names of the sentence alone, raise the
    area under the curve of SQuAD by 0.01 when fitted on it alone, and lower that of CLAP NQ by 0.1.
    """

    bias: float = -3.85
    similarity: float = 2.93
    relevance: float = 1.8
    coverage_around: float = 1.32
    missing_number: float = -1.44
    other_number: float = -2.5
    dated: float = 1.0
    missing_name: float = -1.42
    missing_negation: float = -1.29
    missing_kind: float = -0.47
    missing_date: float = -3.0
    amount: float = 0.45
    missing_reason: float = -0.7
    missing_step: float = -0.5
    missing_asked: float = -0.7
    missing_quantity: float = -1.47
    asked_field: float = 1.0
    named: float = 0.9
    own: float = 1.5
    headed: float = 1.4
    identified: float = 0.5
    defines: float = 0.8
    undefined: float = -2.5
    lead: float = 1.8


RANKING = RankingWeights()
SUPPORT = SupportWeights()

MIN_SUPPORT = 0.36
"""Support below which the generator abstains, unless the request or the setting says otherwise.

`docs/explanation/answers-and-citations.md` has what it answers, and what wrongly.
"""

CLOSEST_SUPPORT = 0.2
"""Support from which a refusal quotes what came closest.

Of 130 questions about the handbook, 15 were refused with this support or more: 6 of the quotes answered, and 2 helped.
"""

UNLIKE_HEADING = 0.35
LIKE_HEADING = 0.75
"""Cosines of a heading to the question up to which it says nothing, and from which it says all that was asked.

The most similar heading of the retrieved sections has a median of 0.60 for questions that are answered, and of 0.25
for those that nothing answers, with 0.47 at the ninth decile.
"""

ASKED_FOR = 1.3
"""How much more than another word of the question counts what "Which …" asks for."""

LEAD_SUPPORT = 0.5
"""How much the support of an excerpt counts against its score where it is to lead the answer."""

TESTED_PASSAGES = 5
"""Passages whose best excerpts may lead an answer."""

MAX_LEAD = 0.2
"""Lead over the excerpts of other passages from which more of it tells nothing: they are about something else."""

COMPARED_BY_DATE = 8
"""Excerpts of dated documents that are compared with one another, the best ones."""

COMPARED_WITH_CLAIM = 8
"""Sentences of other documents that are compared with each of an answer for what contradicts it, the best ones."""

DENIED_SHARE = 0.9
"""Share of the words of the longer of two sentences, one of which denies the other, that both must have."""

MAX_OPPOSING = 3
"""Most documents that are shown to contradict a statement."""

SUMMARY_EXCERPTS = 6
"""Most excerpts of a summary."""

LABEL_WORDS = 7
"""List items of fewer words that end without a full stop are labels of things rather than statements."""

MAX_EXCERPTS = 3
"""Most excerpts of an answer."""

SAME_PARAGRAPH_DROP = 0.13
SAME_LIST_DROP = 0.03
ELSEWHERE_DROP = 0.08
"""How far below the best excerpt's score a further one may be: a sentence of a paragraph that is quoted, an item or row
of a list or table that is, and a sentence from elsewhere.

Excerpts of other paragraphs of a quoted passage used to come in as well without a further word of the question. Answers
to natural questions then had 1.8 excerpts rather than 1.4, and met the sentences that readers chose for CLAP NQ with an
F1 of .496 rather than .478, but few of them belonged together. With only the next sentence of the paragraph it is .453.
"""

NEARLY_AS_GOOD = 0.05
"""How far below the best excerpt's score a second sentence may be that has no further word of the question.

Where the first two are that close, the right one of natural questions is the second nearly as often as the first. It
makes answers 2 % longer, and 6 of 241 more of them right; with 0.08, 5 % and 8.
"""

CODE_DROP = 0.25
"""How far below the sentence that leads an answer to "How do I …?" code may score that shows it.

Nine answers that were read have code by it, and each time that was what was asked for. With code of any section,
whatever words of the question it has, that was so for five of seven.
"""

LIST_DROP = 0.4
"""How far below a sentence that only speaks of what there is the list of that in its section may score."""

CONTEXT_CHARS = 350
"""Most characters of the sentence that leads an answer together with the one that it is read with."""

SHOWN_WITHIN = 300
"""Code points between a sentence and the code or list that shows what it says, so that it is about the same."""

OPENED_BY = 0.75
"""How far a heading must say what was asked for the first sentence of its section to open the answer."""

SHORT_LEAD_WORDS = 8
"""Words up to which a sentence that is to say what something is comes together with one that leans on it."""

MIN_SET_OFF = 3
"""Excerpts that set a subject off from which that may be how the material writes it, and introduces nothing."""

SPELLED_SHARE = 0.34
"""Share of a name's occurrences, without those in addresses, from which on a spelling in several words is the name."""

NEAR_DUPLICATE = 0.7
"""Share of common stems (Jaccard) from which two excerpts say the same."""

MAX_CORROBORATIONS = 2
"""Further documents that a claim is cited from when they say the same."""

MAX_CANDIDATES = 24
"""Excerpts that are compared with one another, the best without similarity.

32 and 64 choose no better (CLAP NQ, Northwind: equal within 0.015 in every figure); 16 answer 0.02 of CLAP NQ less.
"""

MAX_EMBEDDED = 8
"""Excerpts among them whose similarity the model is asked for: embedding is nearly all of the time of an answer.

With 24 no figure of SQuAD v2.0, CLAP NQ or Northwind is better by more than 0.015; 5 answer 0.02 of each less.
"""

MAX_BEHIND = 0.15
"""How far an excerpt may score below the best, by estimates, for the model to be asked about it.

That leaves 3.4 of the eight on average for SQuAD v2.0, and 4.8 for CLAP NQ, Northwind and natural questions. What is
answered, wrongly or rightly, differs by at most 0.013 from asking about all eight; with 0.2, which leaves 4.2 and 5.6,
by 0.011.
"""


@dataclass(frozen=True, slots=True)
class EstimateWeights:
    """Weights of a linear estimate of the similarity of an excerpt that the model is not asked for.

    A regression on the similarities of the candidates of 705 questions of SQuAD v2.0, CLAP NQ and Northwind:
    correlation 0.78, deviation 0.12.
    """

    bias: float = 0.06
    coverage: float = 0.22
    relevance: float = 0.74
    rank: float = -0.1


ESTIMATE = EstimateWeights()
