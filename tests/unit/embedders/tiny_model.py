"""Make small models of any dimension in the real format of the sentence-transformers library, weights random."""

import string
import warnings
from pathlib import Path
from typing import Any

MAX_TOKENS = 32


def multilingual_tokenizer(texts: list[str]) -> Any:
    """Return a SentencePiece tokenizer as multilingual models have, with their special tokens, made of some texts."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers  # noqa: PLC0415 - heavy
    from transformers import PreTrainedTokenizerFast  # noqa: PLC0415 - heavy

    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=400,
        special_tokens=special,
        unk_token="<unk>",  # noqa: S106 - no password
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    names = {"cls": "<s>", "pad": "<pad>", "sep": "</s>", "unk": "<unk>", "mask": "<mask>"}
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, **{f"{name}_token": token for name, token in names.items()}
    )


def save_tiny_model(
    folder: Path,
    dimensions: int,
    *,
    seed: int = 0,
    layers: int = 1,
    prompts: dict[str, str] | None = None,
    tokenizer: Any = None,
) -> Path:
    """Save a BERT of one layer with mean pooling, no normalisation, and by default a vocabulary of letters."""
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
    if tokenizer is None:
        word_pieces = BertWordPieceTokenizer({piece: number for number, piece in enumerate(pieces)})
        tokenizer = PreTrainedTokenizerFast(
            tokenizer_object=word_pieces._tokenizer,
            **{f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")},
        )
    config = BertConfig(
        vocab_size=max(len(pieces), len(tokenizer)),
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


def save_in_cache(hub: Path, name: str, dimensions: int, *, seed: int = 0, tokenizer: Any = None) -> None:
    """Save a tiny model where the Hugging Face cache keeps the model of that name of the library's authors."""
    repository = hub / f"models--sentence-transformers--{name}"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text("0123456789abcdef")
    saved = save_tiny_model(hub / f"made-{name}", dimensions, seed=seed, tokenizer=tokenizer)
    (repository / "snapshots").mkdir()
    saved.rename(repository / "snapshots" / "0123456789abcdef")
