"""What a question asks for, read off its wording; English cues, other languages fall back to OTHER."""

import re
from dataclasses import dataclass
from enum import StrEnum

from groundwire.answer.words import content_stems


class QuestionKind(StrEnum):
    """What an answering sentence has to offer."""

    DEFINITION = "definition"
    PROCEDURE = "procedure"
    REASON = "reason"
    PERSON = "person"
    TIME = "time"
    PLACE = "place"
    QUANTITY = "quantity"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Question:
    """A question with what the scorer needs of it.

    `stems` are the distinct stems of its content words in order; `subject` those of the thing a definition is
    asked of, empty for other kinds. `wants_code` is true when it asks for code, a command or an example.
    """

    text: str
    kind: QuestionKind
    stems: tuple[str, ...]
    subject: tuple[str, ...]
    wants_code: bool


_CUES = {
    QuestionKind.QUANTITY: r"how (?:many|much|long|old|far|large|big|tall|high|often|fast|deep|wide)"
    r"|what (?:percent|percentage|number|amount|proportion|fraction|temperature|size)",
    QuestionKind.TIME: r"when|(?:what|which) (?:year|date|day|month|century|decade|time|era|period)",
    QuestionKind.PERSON: r"who(?:m|se)?",
    QuestionKind.PLACE: r"where|(?:what|which) (?:city|country|state|place|region|county|town|continent)",
    QuestionKind.REASON: r"why|what (?:is|was) the (?:reason|cause)|for what reason",
    QuestionKind.PROCEDURE: r"how (?:do|can|should|to|does one|would|could|might)|steps to|way to",
}
_CUE_PATTERNS = {kind: re.compile(rf"\b(?:{cues})\b", re.IGNORECASE) for kind, cues in _CUES.items()}
_DEFINITION = re.compile(
    r"^\W*(?:so |and |please |can you |could you )*(?:what(?:'s|\u2019s| is| are| was| were)(?: meant by)?|define"
    r"|explain|describe|tell me about|what do(?:es)?(?= .* (?:mean|do)\b)) (?:an? |the |exactly )*"
    r"(?P<subject>[^?.,;]{1,60}?)"
    r"(?: mean| do)?(?: in (?:rust|python|general|simple terms))?\W*$",
    re.IGNORECASE,
)
_CODE = re.compile(r"\b(?:code|snippet|syntax|example of|command|one-liner|show me)\b", re.IGNORECASE)
_LONGEST_SUBJECT = 4


def read_question(text: str) -> Question:
    """Return the question with its kind, content stems and subject."""
    stems = tuple(dict.fromkeys(content_stems(text)))
    definition = _DEFINITION.match(text)
    subject = tuple(dict.fromkeys(content_stems(definition["subject"]))) if definition else ()
    kind = next((kind for kind, pattern in _CUE_PATTERNS.items() if pattern.search(text)), QuestionKind.OTHER)
    if kind is QuestionKind.OTHER and 0 < len(subject) <= _LONGEST_SUBJECT:
        kind = QuestionKind.DEFINITION
    return Question(
        text=text,
        kind=kind,
        stems=stems,
        subject=subject if kind is QuestionKind.DEFINITION else (),
        wants_code=_CODE.search(text) is not None,
    )
