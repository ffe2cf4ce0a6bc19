"""Count, locate and encode tokens with the tokenizers library, without the interpreter lock and without the model."""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import tokenizers
from numpy.typing import NDArray

from groundwire.kernel.embedder import TokenizerDefinition, TokenizerFormat
from groundwire.kernel.errors import InvalidRequestError

TokenIds: TypeAlias = NDArray[np.int64]
"""The ids of one text, shape (n,), without special tokens unless said otherwise."""


class ModelTokenizer:
    """The Tokenizer of a model, or of hashed words; needs neither the model nor torch.

    Single texts go through the batch call as well: only that one releases the interpreter lock
    (`encode` held it for a second on 2 MB of text).
    """

    def __init__(self, definition: TokenizerDefinition) -> None:
        self.definition, self.name = definition, definition.name
        self._tokenizer = _tokenizer(definition)
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()

    def count(self, text: str) -> int:
        check_unicode([text])
        (encoding,) = self._tokenizer.encode_batch_fast([text], add_special_tokens=False)
        return len(encoding)

    def offsets(self, text: str) -> list[tuple[int, int]]:
        check_unicode([text])
        (encoding,) = self._tokenizer.encode_batch([text], add_special_tokens=False)
        return list(encoding.offsets)

    def encode(self, texts: Sequence[str]) -> list[TokenIds]:
        """Return the token ids of each text, without special tokens, not truncated.

        Raises:
            InvalidRequestError: a text has lone surrogates.
        """
        check_unicode(texts)
        encodings = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return [np.array(encoding.ids, dtype=np.int64) for encoding in encodings]

    def special_tokens(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the ids that the model expects before and after the tokens of a text."""
        encoding = self._tokenizer.encode("a")
        special = encoding.special_tokens_mask
        start = special.index(0)
        end = len(special) - special[::-1].index(0)
        return tuple(encoding.ids[:start]), tuple(encoding.ids[end:])


def _tokenizer(definition: TokenizerDefinition) -> tokenizers.Tokenizer:
    if definition.format is TokenizerFormat.HUGGINGFACE_JSON:
        return tokenizers.Tokenizer.from_str(definition.content)
    # Hashed words need no vocabulary: every word and every punctuation mark is one (unknown) token.
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"?": 0}, unk_token="?"))  # noqa: S106 - no password
    pattern = tokenizers.Regex(r"\w+|[^\w\s]")
    words.pre_tokenizer = tokenizers.pre_tokenizers.Split(pattern, behavior="removed", invert=True)
    return words


def check_unicode(texts: Sequence[str]) -> None:
    """Return if every text can be encoded.

    Raises:
        InvalidRequestError: a text has lone surrogates.
    """
    for number, text in enumerate(texts):
        if text.isascii():  # costs nothing, unlike an encoding
            continue
        try:
            text.encode()
        except UnicodeEncodeError as error:
            message = "has lone surrogates, which are not valid Unicode"
            raise InvalidRequestError.of(f"texts[{number}]", message) from error
