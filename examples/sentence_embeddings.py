"""sentence-transformers: texts of all lengths are embedded by one compiled model, which is then trained.

    pip install sentence-transformers
    python examples/sentence_embeddings.py

`compile` is that of torch's modules: it compiles the model in place, so `encode` and a loss of the library's take it as
it is. Model and tokenizer are made here and written to a folder, from which the library reads them; nothing is
downloaded. Embeddings, losses and weights are eager's.
"""

from __future__ import annotations

import tempfile

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from torch import Tensor
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

BACKEND = "cuesta"
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
TEXT = "the old house was near a long red river and we saw not very far from it a new road into"
WORDS = sorted(set(TEXT.split()))


def make_tokenizer() -> PreTrainedTokenizerFast:
    vocabulary = {word: n for n, word in enumerate(SPECIAL + WORDS)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", vocabulary["[SEP]"]), ("[CLS]", vocabulary["[CLS]"]))
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]"
    )


def make_model() -> SentenceTransformer:
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(SPECIAL + WORDS),
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=128,
        max_position_embeddings=64,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    with tempfile.TemporaryDirectory() as folder:
        BertModel(config).save_pretrained(folder)
        make_tokenizer().save_pretrained(folder)
        encoder = Transformer(folder, max_seq_length=64)
        return SentenceTransformer(modules=[encoder, Pooling(64), Normalize()], device="cpu")


def make_texts(count: int, longest: int) -> list[str]:
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(2, longest + 1, (count,), generator=generator).tolist()
    return [
        " ".join(WORDS[n] for n in torch.randint(len(WORDS), (length,), generator=generator).tolist())
        for length in lengths
    ]


def train(model: SentenceTransformer, texts: list[str]) -> list[float]:
    """The loss of each step, over pairs of neighbouring texts."""
    loss_of = MultipleNegativesRankingLoss(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = []
    for first in range(0, len(texts), 16):
        sides = [texts[first : first + 16 : 2], texts[first + 1 : first + 16 : 2]]
        loss = loss_of([model.preprocess(side) for side in sides], labels=None)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def main() -> None:
    texts = make_texts(64, longest=40)
    eager, compiled = make_model(), make_model()
    compiled.compile(backend=BACKEND, dynamic=True)

    expected, actual = (model.encode(texts, batch_size=8, convert_to_tensor=True) for model in (eager, compiled))
    print(f"{len(texts)} embeddings; largest difference from eager {float((actual - expected).abs().max()):.1e}")
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)

    losses = [train(model, texts) for model in (compiled, eager)]
    print(f"losses {losses[0][0]:.4f} to {losses[0][-1]:.4f}, eager {losses[1][0]:.4f} to {losses[1][-1]:.4f}")
    torch.testing.assert_close(*losses, rtol=1e-3, atol=1e-4)
    weights: list[dict[str, Tensor]] = [model.state_dict() for model in (compiled, eager)]
    torch.testing.assert_close(*weights, rtol=1e-3, atol=1e-4)


if __name__ == "__main__":
    main()
