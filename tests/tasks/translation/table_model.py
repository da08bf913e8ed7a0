"""A translation model whose next-token probabilities are a table: everything about search can be checked by hand."""

import torch
import torch.nn.functional as F

from rmsrepro.data.parallel.batch import EOS
from rmsrepro.tasks.translation.model import TranslationModel


class TableModel(TranslationModel):
    """The next token depends on the source's first subword and on all tokens so far, through a table of logits."""

    def __init__(self, vocabulary: int, *, entries: int = 97, bias=None) -> None:
        super().__init__()
        self.table = torch.randn(vocabulary, entries)
        self.bias = torch.zeros(vocabulary) if bias is None else bias

    def features(self, batch):
        raise AssertionError("search does not train")

    def output(self):
        return self.table, self.bias

    def encode(self, source, source_lengths):
        return {"first": source[:, 0]}, [torch.ones(len(source), dtype=torch.long)]

    def step(self, tokens, memory, state):
        first = memory["first"].repeat_interleave(len(tokens) // len(memory["first"]))
        (prefix,) = state
        prefix = (prefix * 31 + tokens * 7 + 1) % 1_000_003
        return F.one_hot((prefix + 13 * first) % self.table.shape[1], self.table.shape[1]).float(), [prefix]

    def log_probs(self, first: int, tokens: list[int]) -> torch.Tensor:
        """Return the log-probabilities [V] of what follows BOS and `tokens`."""
        state = [torch.ones(1, dtype=torch.long)]
        for token in [2, *tokens]:
            x, state = self.step(torch.tensor([token]), {"first": torch.tensor([first])}, state)
        return F.linear(x, self.table, self.bias).log_softmax(1)[0]

    def every_translation(self, first: int, words: list[int], limit: int):
        """Yield (tokens, log-probability) of every translation of at most `limit` tokens, EOS counted."""
        going = [((), 0.0)]
        for step in range(1, limit + 1):
            for tokens, total in going:
                yield tokens, total + self.log_probs(first, list(tokens))[EOS].item()
            if step < limit:
                going = [
                    ((*tokens, word), total + self.log_probs(first, list(tokens))[word].item())
                    for tokens, total in going
                    for word in words
                ]
