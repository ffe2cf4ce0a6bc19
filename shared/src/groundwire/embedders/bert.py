"""Build the encoder of the default model with OpenVINO from its weights, without torch and transformers.

Source: Devlin et al., "BERT", NAACL 2019, with the details of `transformers.BertModel`; pooling and normalisation as
the sentence-transformers library does them. `tests/unit/embedders/test_bert.py` compares the vectors with its own.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
from numpy.typing import NDArray

from groundwire.embedders.model import PROVIDER, Frame, LanguageModel, ModelTokenizer
from groundwire.embedders.model_files import ModelFiles
from groundwire.embedders.openvino_engine import import_openvino
from groundwire.kernel.embedder import EmbeddingIdentity, TokenizerDefinition, TokenizerFormat
from groundwire.kernel.errors import MissingExtraError


def describe_bert(files: ModelFiles) -> LanguageModel:
    """Describe a BERT model without prompts from its files; the probe digest is empty until vectors exist."""
    config = _json(files.folder / "config.json")
    tokenizer = tokenizers.Tokenizer.from_file(str(files.folder / "tokenizer.json"))
    # The file sets truncation and padding for training; here windows and batches take care of both.
    tokenizer.no_truncation()
    tokenizer.no_padding()
    definition = TokenizerDefinition(files.model_name, TokenizerFormat.HUGGINGFACE_JSON, tokenizer.to_str())
    frame = Frame(*ModelTokenizer(definition).special_tokens())
    return LanguageModel(
        identity=EmbeddingIdentity(
            provider=PROVIDER,
            model_name=files.model_name,
            revision=files.revision,
            dimensions=config["hidden_size"],
            max_tokens=_json(files.folder / "sentence_bert_config.json")["max_seq_length"],
            normalized=True,
            probe_digest="",
        ),
        tokenizer=definition,
        document_frame=frame,
        query_frame=frame,
        pad_id=config["pad_token_id"],
    )


def bert_graph(folder: Path, *, pooled: bool = True) -> Any:
    """Return the `openvino.Model` of a folder: ids and attention mask, int64 (n, length), to float32 (n, dimensions).

    Mean pooling over the tokens that the mask keeps; rows at length 1. If not `pooled`, the vectors of the tokens
    themselves come out: float32 (n, length, dimensions), each at length 1.

    Raises:
        MissingExtraError: openvino or safetensors is not installed.
    """
    openvino = import_openvino()
    try:
        from safetensors.numpy import load_file  # noqa: PLC0415 - only where a model is converted
    except ImportError as error:
        raise MissingExtraError("safetensors is not installed: groundwire[openvino]", extra="openvino") from error
    encoder = _Encoder(openvino, _json(folder / "config.json"), load_file(folder / "model.safetensors"))
    ops = openvino.opset13
    ids, mask = (ops.parameter([-1, -1], np.int64, name) for name in ("input_ids", "attention_mask"))
    for parameter in (ids, mask):
        parameter.output(0).set_names({parameter.friendly_name})
    tokens = encoder.tokens(ids, mask)
    if not pooled:
        units = ops.normalize_l2(tokens, np.array([2], np.int64), 1e-12, "max")
        return openvino.Model([units], [ids, mask], "bert-tokens")

    weights = ops.unsqueeze(ops.convert(mask, "f32"), np.int64(2))
    total = ops.reduce_sum(ops.multiply(tokens, weights), np.int64(1))
    count = ops.maximum(ops.reduce_sum(weights, np.int64(1)), np.float32(1e-9))
    vectors = ops.normalize_l2(ops.divide(total, count), np.array([1], np.int64), 1e-12, "max")
    return openvino.Model([vectors], [ids, mask], "bert")


class _Encoder:
    """The layers of one model: `transformers.BertModel` in evaluation, without its pooler."""

    def __init__(self, openvino: Any, config: dict[str, Any], weights: dict[str, NDArray[np.float32]]) -> None:
        self._ops = openvino.opset13
        self._weights = weights
        self._layers: int = config["num_hidden_layers"]
        self._heads: int = config["num_attention_heads"]
        self._epsilon = np.float32(config["layer_norm_eps"])

    def tokens(self, ids: Any, mask: Any) -> Any:
        """Return the hidden states of the last layer, float32 of shape (n, length, hidden)."""
        ops = self._ops
        words = ops.gather(self._constant("embeddings.word_embeddings.weight"), ids, np.int64(0))
        # One sentence for each text: the token type is 0 everywhere, and its row is added to every position here.
        positions = self._weights["embeddings.position_embeddings.weight"]
        positions = positions + self._weights["embeddings.token_type_embeddings.weight"][0]
        length = ops.gather(ops.shape_of(ids), np.array([1]), np.int64(0))
        positions = ops.slice(ops.constant(positions), np.array([0]), length, np.array([1]), np.array([0]))
        states = self._normalised(ops.add(words, positions), "embeddings.LayerNorm")

        # What every head of every layer adds to its scores: nothing for a token, -inf in effect for padding.
        padding = ops.subtract(np.float32(1), ops.convert(mask, "f32"))
        bias = ops.multiply(ops.unsqueeze(padding, np.array([1, 2])), np.finfo(np.float32).min)
        # 0 keeps a dimension (batch, length), -1 takes the rest: the width of a head, and that of all together.
        split, merged = np.array([0, 0, self._heads, -1]), np.array([0, 0, -1])
        swapped = np.array([0, 2, 1, 3])
        for number in range(self._layers):
            layer = f"encoder.layer.{number}"
            projected = (self._linear(states, f"{layer}.attention.self.{name}") for name in ("query", "key", "value"))
            heads = [ops.transpose(ops.reshape(each, split, special_zero=True), swapped) for each in projected]
            context = ops.transpose(ops.scaled_dot_product_attention(*heads, bias), swapped)
            context = ops.reshape(context, merged, special_zero=True)
            attended = self._linear(context, f"{layer}.attention.output.dense")
            states = self._normalised(ops.add(attended, states), f"{layer}.attention.output.LayerNorm")
            inner = ops.gelu(self._linear(states, f"{layer}.intermediate.dense"), "erf")
            outer = self._linear(inner, f"{layer}.output.dense")
            states = self._normalised(ops.add(outer, states), f"{layer}.output.LayerNorm")
        return states

    def _linear(self, states: Any, name: str) -> Any:
        product = self._ops.matmul(states, self._constant(f"{name}.weight"), transpose_a=False, transpose_b=True)
        return self._ops.add(product, self._constant(f"{name}.bias"))

    def _normalised(self, states: Any, name: str) -> Any:
        last = np.array([2])
        unit = self._ops.mvn(states, last, normalize_variance=True, eps=float(self._epsilon), eps_mode="inside_sqrt")
        return self._ops.add(self._ops.multiply(unit, self._constant(f"{name}.weight")), self._constant(f"{name}.bias"))

    def _constant(self, name: str) -> Any:
        # Given an array, the operations make a list of its numbers first, which takes seconds for all of them.
        return self._ops.constant(self._weights[name])


def _json(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content
