"""Vectors of the tokens of texts, of the packaged model: what late interaction compares."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from groundwire.embedders.bert import bert_graph, describe_bert
from groundwire.embedders.model import ModelTokenizer, pad
from groundwire.embedders.model_files import find_model
from groundwire.embedders.openvino_engine import OpenVinoEngine
from groundwire.kernel.embedder import Vectors
from groundwire.kernel.errors import InvalidRequestError

_TEXTS_AT_ONCE: Final = 4


class TokenVectors:
    """Gives each token of a text a vector of its own; blocking, for one thread at a time.

    Args:
        model_name: of the model that comes in a package.

    Raises:
        InvalidRequestError: another model.
        MissingExtraError: a package is not installed.
    """

    def __init__(self, model_name: str) -> None:
        message = f"{model_name!r} is no packaged model, whose tokens can be compared, as all-MiniLM-L6-v2 is"
        refusal = InvalidRequestError.of("reranker", message)
        try:
            files = find_model(model_name)
        except InvalidRequestError as error:  # it names another setting
            raise refusal from error
        if not files.is_packaged:
            raise refusal
        self._model = describe_bert(files)
        self._tokenizer = ModelTokenizer(self._model.tokenizer)
        self._engine = OpenVinoEngine(bert_graph(files.folder, pooled=False), "f32")
        self._pool = ThreadPoolExecutor(self._engine.parallelism, "token-vectors")

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """Return where the tokens of a text stand in it, in code points."""
        return self._tokenizer.offsets(text)

    def of(self, texts: Sequence[str]) -> list[Vectors]:
        """Return for each text float32 of shape (tokens, dimensions), rows of length 1, special tokens left out.

        What goes beyond the window of the model is not read.
        """
        frame = self._model.document_frame
        kept = [tokens[: self._model.window] for tokens in self._tokenizer.encode(texts)]
        # Texts of about one length together: the rest of a batch is padding, which costs as much as text.
        places = sorted(range(len(kept)), key=lambda place: len(kept[place]))
        batches = [places[start : start + _TEXTS_AT_ONCE] for start in range(0, len(places), _TEXTS_AT_ONCE)]

        def infer(batch: list[int]) -> Vectors:
            return self._engine.infer(*pad([frame.around(kept[place]) for place in batch], self._model))

        found: dict[int, Vectors] = {}
        for batch, vectors in zip(batches, self._pool.map(infer, batches), strict=True):
            for place, rows in zip(batch, vectors, strict=True):
                found[place] = rows[len(frame.prefix) : len(frame.prefix) + len(kept[place])]
        return [found[place] for place in range(len(kept))]
