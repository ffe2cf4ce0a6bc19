"""A model without its weights: its tokenizer, the port of the engines that run it, how vectors of two are compared."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

import numpy as np
import tokenizers
from numpy.typing import NDArray

from groundwire.kernel.embedder import EmbeddingIdentity, TokenizerDefinition, TokenizerFormat, Vectors
from groundwire.kernel.errors import InvalidRequestError
from groundwire.kernel.vectors import unit_rows

TokenIds: TypeAlias = NDArray[np.int64]
"""The ids of one text, shape (n,), without special tokens unless said otherwise."""

PROVIDER: Final = "sentence-transformers"
"""Of every model here, whatever runs it: engines of the same weights share one identity."""

PROBE_TEXTS: Final = (
    "The quick brown fox jumps over the lazy dog.",
    "How do I borrow a value mutably?",
    "A citation points at the exact characters of its source.",
    "def main() -> None: print('hello')",
    "Äpfel, 東京, Ω and 🦊 are not ASCII.",
    "42",
    "Interest rates rose by a quarter of a percentage point in March 2023.",
    "photosynthesis",
)

LONG_TEXTS: Final = (
    " ".join(PROBE_TEXTS) * 2,
    " ".join(reversed(PROBE_TEXTS)),
    "word " * 600,
    "",
)
"""Other lengths a model meets: medium, beyond the limit of most models, none."""

CHECK_TEXTS: Final = PROBE_TEXTS + LONG_TEXTS
"""What engines of the same weights are compared by."""

MIN_COSINE: Final = 0.999
"""Two ways to run the same weights must agree to this cosine on every text that is compared."""

_BITS_PER_TEXT = 8
_LENGTH_STEP = 8
# Chosen so that no bit of the default model lies near its boundary (tests/unit/embedders/test_probe.py).
_SALT = b"groundwire-probe-2143"


class ModelTokenizer:
    """The Tokenizer of a model, or of hashed words: counts, locates and encodes tokens without the model and torch.

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


@dataclass(frozen=True, slots=True)
class Frame:
    """Token ids that the model expects before and after those of a text: special tokens and a prompt."""

    prefix: tuple[int, ...]
    suffix: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.prefix) + len(self.suffix)

    def around(self, tokens: TokenIds) -> TokenIds:
        return np.concatenate([np.array(self.prefix, np.int64), tokens, np.array(self.suffix, np.int64)])


@dataclass(frozen=True, slots=True)
class LanguageModel:
    """Everything about a model except its weights."""

    identity: EmbeddingIdentity
    tokenizer: TokenizerDefinition
    document_frame: Frame
    query_frame: Frame
    pad_id: int

    @property
    def window(self) -> int:
        """Return the number of tokens of a text that one sequence holds."""
        # By the longer frame, so that a text is cut at the same place as a document and as a query.
        return self.identity.max_tokens - max(len(self.document_frame), len(self.query_frame))


class Engine(Protocol):
    """Runs a model; `infer` may be called from `parallelism` threads at once."""

    name: str
    """What operators see: library and precision."""

    parallelism: int
    """How many inferences run at once without slowing each other down."""

    def infer(self, input_ids: NDArray[np.int64], attention_mask: NDArray[np.int64]) -> Vectors:
        """Return float32 of shape (n, dimensions) for sequences of shape (n, length), padded on the right."""

    def close(self) -> None:
        """Release threads and memory; idempotent."""


def pad(sequences: list[TokenIds], model: LanguageModel) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return ids and attention mask of shape (n, length), the sequences padded on the right.

    The length is the next multiple of 8 from the longest sequence, at most the model's limit.
    """
    # An engine prepares itself anew for a shape that its last batch did not have. With eight times fewer lengths, a
    # question takes a fifth less time in bf16 and a tenth less in fp32, although it has four more tokens on average.
    longest = max(len(sequence) for sequence in sequences)
    length = max(longest, min(-(-longest // _LENGTH_STEP) * _LENGTH_STEP, model.identity.max_tokens))
    input_ids = np.full((len(sequences), length), model.pad_id, np.int64)
    attention_mask = np.zeros_like(input_ids)
    for row, sequence in enumerate(sequences):
        input_ids[row, : len(sequence)] = sequence
        attention_mask[row, : len(sequence)] = 1
    return input_ids, attention_mask


def embed_directly(engine: Engine, model: LanguageModel, sequences: list[TokenIds]) -> Vectors:
    """Return the unit vectors of a few token sequences as one padded batch, without queue and threads."""
    cut = [model.document_frame.around(tokens[: model.window]) for tokens in sequences]
    return unit_rows(engine.infer(*pad(cut, model)))


def probe_digest(vectors: Vectors) -> str:
    """Return the SHA-256 (hex) of 64 signs of random projections of the vectors of PROBE_TEXTS.

    The sign of a projection is the coarsest rounding there is; two models agree in a bit by chance only.

    Args:
        vectors: float32, shape (len(PROBE_TEXTS), dimensions), rows L2-normalised.

    Source: Charikar, "Similarity Estimation Techniques from Rounding Algorithms", STOC 2002, section 3.
    """
    bits = np.packbits(projections(vectors) > 0)
    return hashlib.sha256(f"{vectors.shape[1]}:".encode() + bits.tobytes()).hexdigest()


def projections(vectors: Vectors) -> NDArray[np.float64]:
    """Return float64 of shape (8 texts, 8): about normal with variance 1 for unit vectors of a good model."""
    dimensions = vectors.shape[1]
    noise = hashlib.shake_256(_SALT).digest(_BITS_PER_TEXT * dimensions)
    signs = np.where(np.frombuffer(noise, np.int8).reshape(dimensions, _BITS_PER_TEXT) < 0, -1.0, 1.0)
    projected: NDArray[np.float64] = vectors.astype(np.float64) @ signs
    return projected


def cosines(left: Vectors, right: Vectors) -> NDArray[np.float64]:
    """Return the cosine of each pair of rows, shape (n,), in [-1, 1]."""
    left64, right64 = left.astype(np.float64), right.astype(np.float64)
    norms = np.linalg.norm(left64, axis=1) * np.linalg.norm(right64, axis=1)
    result: NDArray[np.float64] = (left64 * right64).sum(axis=1) / np.maximum(norms, 1e-12)
    return result
