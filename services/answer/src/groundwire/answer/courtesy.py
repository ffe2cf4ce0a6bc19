"""What people say around a question, and what asks for nothing; English."""

import re

# What people say before a question, as in "Great, thanks! Do you know when …", and behind it.
_GREETING = "so|and|but|ok(?:ay)?|well|also|now|hi|hello|hey|thanks|thank you|please|pls|btw|by the way|sorry|yes|no"
_ASKING = "how|what|when|where|which|who|whom|whose|why|is|are|was|were|do|does|did|can|could|should|will|would"
_COURTESY = re.compile(
    rf"^\W*+(?:(?!(?:{_ASKING})\b)[^.!?\n]{{1,60}}+(?<=\w)!\s++(?=(?-i:[A-Z]))"
    rf"|(?:{_GREETING})\b(?!-)[\s,.!:;\u2013]*+)*+"
    r"(?:(?:(?:do|would) you (?:happen to )?know|i(?: would|['\u2019]d)? (?:want|like|need) to know|i wonder|tell me"
    rf"|(?:can|could|would|will) (?:you|i) (?:please )?(?:tell me|say|know))[\s,:]++(?=(?:how|wh)[a-z]*\b)"
    r"|(?:can|could|would|will) you (?:please )?(?=(?:define|describe|explain|give|list|show|tell)\b))?+"
    r"|[,.]? (?:please|pls)(?=\W*$)|[,.] (?:thanks|thank you)(?=\W*$)",
    re.IGNORECASE,
)
_ASKS = re.compile(r"\w")


def without_courtesy(question: str) -> str:
    """Return "when it was built?" of "Great, thanks! Do you know when it was built?": what is asked for, alone."""
    asked = _COURTESY.sub("", question)
    return asked if _ASKS.search(asked) else question
