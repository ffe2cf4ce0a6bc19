"""Surface cues of English sentences: what they offer, what they lean on, what they only announce."""

import re

from groundwire.answer.domain.question import Question, QuestionKind
from groundwire.answer.domain.words import FUNCTION_WORDS, stem, words

_NAME = re.compile(r"(?<![.!?]\s)(?<!^)\b[A-Z][^\W\d_]+")
_NUMBER_WORDS = re.compile(
    r"\d|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty|thirty|forty|fifty|hundred|"
    r"thousand|million|billion|dozen|half|third|quarter)\b",
    re.IGNORECASE,
)
_TIME = re.compile(
    r"\b1\d{3}\b|\b20\d\d\b|\bcentur|\b(?:January|February|March|April|May|June|July|August|September|October|November|"
    r"December)\b|\b\d+s\b|\d+ (?:seconds?|minutes?|hours?|days?|weeks?|months?|years?)\b|\b(?:when|once|after|until)\b"
)
_REASON = re.compile(
    r"\b(?:because|since|due to|so that|in order|therefore|as a result|cause|reason|why|to avoid|enables?)\b",
    re.IGNORECASE,
)
_STEP = re.compile(
    r"^(?:to|you can|run|use|call|create|add|open|first|type|write|set)\b"
    r"|\b(?:you can|we can|we use|by \w+ing|using|use the|with the)\b",
    re.IGNORECASE,
)
_EVIDENCE = {
    QuestionKind.QUANTITY: _NUMBER_WORDS,
    QuestionKind.TIME: _TIME,
    QuestionKind.REASON: _REASON,
    QuestionKind.PROCEDURE: _STEP,
}
_DANGLING = re.compile(
    r"(?:this|that|these|those|it|they|he|she|such|however|but|and|or|so|also|then|here|therefore|thus|instead"
    r"|otherwise|similarly|likewise|additionally|furthermore|in other words|for example|for instance"
    r"|in this (?:case|example)|as a result|on the other hand|at this point|again|finally|next|now|note)\b",
    re.IGNORECASE,
)
_ANNOUNCEMENT = re.compile(
    r"\bin (?:this|the next|the previous|a later|the following) (?:chapter|section|part)|\bchapter \d"
    r"|\b(?:we|you)['\u2019]ll (?:see|learn|look|discuss|cover|talk|explore|use|write|build|create)"
    r"|\blet['\u2019]s\b|\bas we (?:saw|discussed)|\b(?:listing|figure) \d|\bwe (?:discussed|covered|mentioned)",
    re.IGNORECASE,
)
_IS_A = re.compile(
    r"(?:['\"\u201d\u2019*_`)]|\([^)]{1,40}\)|\s)*"
    r"\b(?:is|are|was|were|means?|refers? to|describes?|lets?|allows?|enables?|provides?|defines?)\b"
)
_OPENING_WORDS = 4


def names_in(text: str) -> list[str]:
    """Return the capitalised words that do not open a sentence, in order."""
    return _NAME.findall(text)


def kind_match(question: Question, text: str) -> float:
    """Return 1 if the sentence has what the kind of question asks for, -1 if not, 0 if the kind asks for nothing."""
    if question.kind in {QuestionKind.PERSON, QuestionKind.PLACE}:
        asked = set(words(question.text))
        return 1.0 if any(name.casefold() not in asked for name in names_in(text)) else -1.0
    pattern = _EVIDENCE.get(question.kind)
    if pattern is None:
        return 0.0
    return 1.0 if pattern.search(text) else -1.0


def definition_match(question: Question, text: str) -> float:
    """Return 1 if the sentence has the question's subject as its own (`Ownership is …`), 0.3 if it opens with it."""
    subject = set(question.subject)
    opening = {stem(word) for word in words(text)[: 3 * len(subject) + _OPENING_WORDS]}
    if not subject or not subject <= opening:
        return 0.0
    verb = _IS_A.search(text)
    before = {stem(word) for word in words(text[: verb.start()]) if word not in FUNCTION_WORDS} if verb else set()
    return 1.0 if before == subject else 0.3


def is_dangling(text: str) -> bool:
    """Tell whether the sentence opens with something that only the sentence before explains."""
    return _DANGLING.match(text) is not None


def is_announcement(text: str) -> bool:
    """Tell whether the sentence speaks about the document (`In this chapter, we'll see`) rather than its subject."""
    return _ANNOUNCEMENT.search(text) is not None
