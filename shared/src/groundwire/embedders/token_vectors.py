"""Vectors of the tokens of texts, of the packaged model: what late interaction compares."""

from collections.abc import Sequence

from groundwire.embedders.bert import bert_graph, describe_bert
from groundwire.embedders.model import pad
from groundwire.embedders.model_files import ModelFiles, find_model
from groundwire.embedders.openvino_engine import OpenVinoEngine
from groundwire.embedders.tokenization import ModelTokenizer
from groundwire.kernel.embedder import Vectors
from groundwire.kernel.errors import InvalidRequestError


class TokenVectors:
    """Gives each token of a text a vector of its own; blocking, for one thread at a time.

    Args:
        model_name: of the model that comes in a package.

    Raises:
        InvalidRequestError: another model.
        MissingExtraError: a package is not installed.
    """

    def __init__(self, model_name: str) -> None:
        files: ModelFiles = find_model(model_name)
        if not files.is_packaged:
            raise InvalidRequestError.of(
                "reranker", f"{model_name!r} is no packaged model, whose tokens can be compared"
            )
        self._model = describe_bert(files)
        self._tokenizer = ModelTokenizer(self._model.tokenizer)
        self._engine = OpenVinoEngine(bert_graph(files.folder, pooled=False), "f32")

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """Return where the tokens of a text stand in it, in code points."""
        return self._tokenizer.offsets(text)

    def of(self, texts: Sequence[str]) -> list[Vectors]:
        """Return for each text float32 of shape (tokens, dimensions), rows of length 1, special tokens left out.

        What goes beyond the window of the model is not read.
        """
        frame = self._model.document_frame
        kept = [tokens[: self._model.window] for tokens in self._tokenizer.encode(texts)]
        vectors = self._engine.infer(*pad([frame.around(tokens) for tokens in kept], self._model.pad_id))
        first = len(frame.prefix)
        return [rows[first : first + len(tokens)] for rows, tokens in zip(vectors, kept, strict=True)]
