"""What is said when the material does not answer a question."""

from groundwire.answer.domain.answer import RefusalReason

REFUSALS = {
    RefusalReason.NO_RESULTS: "The material does not cover this question: nothing in it is relevant to it.",
    RefusalReason.WEAK_SUPPORT: (
        "The material does not cover this question: nothing in it supports an answer well enough."
    ),
    RefusalReason.UNSUPPORTED_CLAIMS: "The material does not cover this question: no statement could be traced to it.",
    RefusalReason.RETRIEVAL_DISABLED: "The material was not searched for this question: retrieval is switched off.",
    RefusalReason.OUTSIDE_SELECTION: "The selected material does not cover this question.",
}
"""The fixed text of each refusal; a refusal never says anything else."""
