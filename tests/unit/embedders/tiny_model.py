"""Make small models of any dimension in the real format of the sentence-transformers library, weights random."""

import string
import warnings
from pathlib import Path

MAX_TOKENS = 32


def save_tiny_model(
    folder: Path, dimensions: int, *, seed: int = 0, layers: int = 1, prompts: dict[str, str] | None = None
) -> Path:
    """Save a one-layer BERT with mean pooling, no normalisation, and a word-piece vocabulary of letters."""
    import torch  # noqa: PLC0415 - heavy
    from sentence_transformers import SentenceTransformer  # noqa: PLC0415 - heavy
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer  # noqa: PLC0415 - heavy
    from tokenizers.implementations.bert_wordpiece import BertWordPieceTokenizer  # noqa: PLC0415 - heavy
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast  # noqa: PLC0415 - heavy

    torch.manual_seed(seed)
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *string.ascii_lowercase, *string.digits, ".", ",", ":"]
    pieces += [f"##{letter}" for letter in string.ascii_lowercase + string.digits]
    transformer = folder / "parts"
    transformer.mkdir(parents=True)
    word_pieces = BertWordPieceTokenizer({piece: number for number, piece in enumerate(pieces)})
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=word_pieces._tokenizer,
        **{f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")},
    )
    config = BertConfig(
        vocab_size=len(pieces),
        hidden_size=dimensions,
        num_hidden_layers=layers,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=64,
        initializer_range=0.2,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        BertModel(config).save_pretrained(transformer)
        tokenizer.save_pretrained(transformer)
        modules = [Transformer(str(transformer), max_seq_length=MAX_TOKENS), Pooling(dimensions)]
        SentenceTransformer(modules=modules, prompts=prompts, device="cpu").save(str(folder / "tiny"))
    return folder / "tiny"


def save_in_cache(hub: Path, name: str, dimensions: int, *, seed: int = 0) -> None:
    """Save a tiny model where the Hugging Face cache keeps the model of that name of the library's authors."""
    repository = hub / f"models--sentence-transformers--{name}"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text("0123456789abcdef")
    saved = save_tiny_model(hub / f"made-{name}", dimensions, seed=seed)
    (repository / "snapshots").mkdir()
    saved.rename(repository / "snapshots" / "0123456789abcdef")
