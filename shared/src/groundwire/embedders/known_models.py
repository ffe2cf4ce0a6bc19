"""The models that groundwire names in its documentation, with the sizes that operators choose by."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KnownModel:
    """A model of the sentence-transformers library; `max_tokens` counts special tokens."""

    name: str
    dimensions: int
    max_tokens: int

    def __str__(self) -> str:
        return f"{self.name} ({self.dimensions} dimensions, {self.max_tokens} tokens)"


DEFAULT_MODEL = "sentence-transformers/all-MiniLM-L6-v2"

KNOWN_MODELS = {
    model.name: model
    for model in (
        KnownModel(DEFAULT_MODEL, 384, 256),
        KnownModel("sentence-transformers/all-MiniLM-L12-v2", 384, 128),
        KnownModel("sentence-transformers/paraphrase-MiniLM-L3-v2", 384, 128),
        KnownModel("sentence-transformers/sentence-t5-base", 768, 256),
        KnownModel("sentence-transformers/all-mpnet-base-v2", 768, 384),
    )
}
"""By full name. Only the default comes with the `models` extra; the others are used when they are on this machine."""
