"""A text cut into claims."""

import pytest

from groundwire.answer.grounding.claims import ClaimKind, split_claims
from tests.growth import LINEAR, growth

_REPLY = """\
# Timeouts

Sure, happy to help! Here is what I found:

The default timeout is **30 seconds** [1], and operators can raise it to 120 seconds [2, 3]. It is never unlimited.

- Searches are retried 3 times; ingests are not retried.

| Plan | Price |
|------|-------|
| Team | €5 |

```sh
groundwire serve --data x
```

I could not find anything about costs, but the licence is Apache 2.0. Do you want to know more?
"""


def test_sentences_list_items_rows_code_and_clauses_are_claims_at_exact_spans() -> None:
    claims = split_claims(_REPLY)
    shown = [(claim.kind, claim.text) for claim in claims]
    assert shown == [
        (ClaimKind.HEADING, "Timeouts"),
        (ClaimKind.COURTESY, "Sure, happy to help!"),
        (ClaimKind.TRANSITION, "Here is what I found:"),
        (ClaimKind.STATEMENT, "The default timeout is 30 seconds"),
        (ClaimKind.STATEMENT, "operators can raise it to 120 seconds."),
        (ClaimKind.STATEMENT, "It is never unlimited."),
        (ClaimKind.STATEMENT, "Searches are retried 3 times"),
        (ClaimKind.STATEMENT, "ingests are not retried."),
        (ClaimKind.STATEMENT, "Team | €5"),
        (ClaimKind.STATEMENT, "groundwire serve --data x"),
        (ClaimKind.ABSTENTION, "I could not find anything about costs"),
        (ClaimKind.STATEMENT, "the licence is Apache 2.0."),
        (ClaimKind.QUESTION, "Do you want to know more?"),
    ]
    encoded = _REPLY.encode()
    assert [_REPLY[each.span.start : each.span.end] for each in claims] == [
        encoded[each.span.start_byte : each.span.end_byte].decode() for each in claims
    ]
    assert _REPLY[claims[3].span.start : claims[3].span.end] == "The default timeout is **30 seconds** [1]"
    assert claims[8].span.start_byte > claims[8].span.start - 1
    assert [each.text for each in claims if each.antecedent] == ["It is never unlimited."]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Thank you for your question!", ClaimKind.COURTESY),
        ("Let me know if you need anything else.", ClaimKind.COURTESY),
        ("Sure, the limit is 500.", ClaimKind.STATEMENT),
        ("Of course Kestrel sells boats in Norway.", ClaimKind.STATEMENT),
        ("The documents do not mention a price.", ClaimKind.ABSTENTION),
        ("No information about prices was found.", ClaimKind.ABSTENTION),
        ("The free plan does not include backups.", ClaimKind.STATEMENT),
        ("There is no evidence that the drug works.", ClaimKind.STATEMENT),
        ("It does not provide encryption.", ClaimKind.STATEMENT),
        ("Thank you, and red foxes eat small mice.", ClaimKind.STATEMENT),
        ("Sure, backups are encrypted.", ClaimKind.STATEMENT),
        ("Yes, backups are encrypted.", ClaimKind.STATEMENT),
        ("Summary: backups restore servers nightly.", ClaimKind.STATEMENT),
        ("Yes, you can return opened goods.", ClaimKind.STATEMENT),
        ("Of course we refund damaged goods.", ClaimKind.STATEMENT),
        ("Sure, I can help with that.", ClaimKind.COURTESY),
        ("Sure, happy to help you with the setup of the server!", ClaimKind.COURTESY),
        ("Thanks for the detailed question about backup settings!", ClaimKind.COURTESY),
        ("Summary: backup and restore.", ClaimKind.TRANSITION),
        ("Yes, it is.", ClaimKind.TRANSITION),
        ("In summary, it works.", ClaimKind.TRANSITION),
        ("In summary, the server encrypts every backup before it leaves the machine.", ClaimKind.STATEMENT),
        ("Yes.", ClaimKind.TRANSITION),
        ("Is it 30 seconds?", ClaimKind.QUESTION),
        ("I hope this helps you with the setup of your new server!", ClaimKind.COURTESY),
        ("I hope you enjoy long walks through old forests, quiet valleys and wide meadows.", ClaimKind.STATEMENT),
        ("Granite.", ClaimKind.TRANSITION),
        ("This is it.", ClaimKind.TRANSITION),
        ("In summary, it restores servers.", ClaimKind.STATEMENT),
        ("In summary, a good day.", ClaimKind.TRANSITION),
        ("Steps to restore the encrypted backups of a server:", ClaimKind.TRANSITION),
        ("The server copies encrypted backups to other machines in these places every night:", ClaimKind.STATEMENT),
        ("| Plan |\n|---|\n| yes |", ClaimKind.STATEMENT),
    ],
)
def test_only_what_asserts_something_needs_a_source(text: str, kind: ClaimKind) -> None:
    assert [each.kind for each in split_claims(text)] == [kind]


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("Foxes sleep by day; mice run at night.", ["Foxes sleep by day", "mice run at night."]),
        ("Salt; pepper is ground fresh.", ["Salt; pepper is ground fresh."]),
        ("In the old, cold, dark den; cats sleep well.", ["In the old, cold, dark den; cats sleep well."]),
        ("Foxes live in old dens, but not owls.", ["Foxes live in old dens, but not owls."]),
        ("Foxes live in dens, but not the timid owl.", ["Foxes live in dens, but not the timid owl."]),
        ("~~~\nrestart now\n~~~", ["restart now"]),
    ],
    ids=["clauses", "a word", "a list", "one word behind", "no verb behind", "code"],
)
def test_what_could_not_stand_alone_is_no_claim(text: str, pieces: list[str]) -> None:
    assert [text[each.span.start : each.span.end] for each in split_claims(text)] == pieces


@pytest.mark.parametrize("text", ["", " \n\t", "...", "***", "[1]", "|---|---|", "```\n```", "\u200b"])
def test_a_text_without_words_has_no_claims(text: str) -> None:
    assert split_claims(text) == []


def test_a_sentence_of_many_clauses_is_cut_in_time_that_grows_with_its_length() -> None:
    assert growth(lambda clauses: "x is 5; " * clauses, split_claims, 500) < LINEAR
