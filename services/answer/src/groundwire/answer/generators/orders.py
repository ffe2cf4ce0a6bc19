"""Finds text of documents that is addressed to the model instead of the reader."""

import re
from dataclasses import replace

from groundwire.answer.evidence import Passage
from groundwire.kernel.sentences import split_blocks

_MODEL = (
    r"(?:AIs?|A\.I\.|(?:AI |language |chat )?(?:assistants?|models?)|LLMs?|chatbots?|ChatGPT|GPT-?\d?|Claude|Gemini"
    r"|Copilot)"
)
_REPLY = r"(?:answers?|repl(?:y|ies)|responses?|outputs?|summary|summaries)"
_ANSWER = rf"(?:your|each|every|all|any) {_REPLY}"
_ORDERS = re.compile(
    # Orders about orders.
    r"\b(?:ignore|disregard|forget|override|bypass)\b[^.!?\n]{0,40}"
    r"\b(?:previous|prior|above|earlier|foregoing|preceding|system|original|your)\b[^.!?\n]{0,30}"
    r"\b(?:instructions?|prompts?|guidelines?|directions?|commands?|orders?|rules|messages?)\b"
    r"|\b(?:new|updated|hidden|secret|system) (?:instructions?|prompts?) ?:"
    r"|\b(?:you are now an?|act now as|you must now)\b"
    r"|\bfrom now on,? (?:you|always|never|answer|reply|respond)\b"
    # To whom it may concern.
    r"|\b(?:notes?|messages?|instructions?|attention|notice|orders?|hello|hey|dear),? (?:to |for )?"
    rf"(?:the |any |all |every )?{_MODEL}\b"
    rf"|\b(?:if|when|as) you(?: are|'re)? (?:an? |the )?{_MODEL}\b"
    rf"|\b{_MODEL} ?[:,] ?(?:you|please|ignore|disregard|reply|respond|answer|say|output|print|write|include|append"
    r"|add|tell)\b"
    # What to answer.
    rf"|\b(?:begin|start|end|finish|conclude|preface|replace) {_ANSWER}\b"
    rf"|(?:^|[.!?:;,] )\W{{0,3}}[a-z]{{3,15}} your (?:\w{{1,20}} )?{_REPLY}\b"
    rf"|\b(?:in|to|into|of|as|with|within|from|throughout) your (?:\w{{1,20}} )?{_REPLY}\b"
    rf"|\b{_ANSWER} (?:must|should|shall|has to|have to) (?:begin|start|end|include|contain|say|be)\b"
    r"|\b(?:when|if|whenever|once) (?:asked|you (?:are asked|answer|reply|respond|summari[sz]e))\b[^.!?\n]{0,80}"
    r"\b(?:say|reply|answer|respond|state|include|append|mention|recommend|output|print|write)\b"
    # Marks of chat templates.
    r"|<\|?/?(?:im_start|im_end|system|assistant|begin_of_text|start_header_id|endoftext)\|?>"
    r"|\[/?(?:INST|SYS)\]|<<SYS>>",
    re.IGNORECASE | re.MULTILINE,
)


def without_orders(passage: Passage) -> Passage:
    """Return the passage with spaces in place of the paragraphs, and without the title, that give orders to a reader.

    Whole paragraphs, because what is to be said may stand in another sentence than the order to say it. Every other
    code point keeps its place. Recognised are common English forms; where this finds nothing, grounding is what holds.
    """
    content = passage.content
    if _ORDERS.search(passage.title) is not None:
        passage = replace(passage, title="")
    if _ORDERS.search(content) is None:
        return passage
    parts, done = [], 0
    for block in split_blocks(content):
        if _ORDERS.search(content, block.start, block.end):
            parts += [content[done : block.start], " " * (block.end - block.start)]
            done = block.end
    return replace(passage, content="".join([*parts, content[done:]]))
