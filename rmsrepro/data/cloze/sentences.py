"""The few sentences of a passage that a question is most likely about.

The paper's passages have at most four sentences, chosen by "string matching" that nobody has described. This is a
selector of our own: a sentence scores, for each distinct word that it shares with the question, one over the number
of the passage's sentences with that word, so that names count and "the" does not. The best stay, in their order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

_ENDS = frozenset((".", "!", "?"))
_CLOSING = frozenset(("''", '"', "'", "”", "’", ")", "-rrb-"))


def split_sentences(words: Sequence[str]) -> list[list[str]]:
    """Cut tokenised text behind `.`, `!` and `?`, together with what closes a quotation or bracket there."""
    sentences: list[list[str]] = [[]]
    ended = False
    for word in words:
        if ended and word not in _CLOSING and word not in _ENDS:
            sentences.append([])
            ended = False
        sentences[-1].append(word)
        ended = ended or word in _ENDS
    return [sentence for sentence in sentences if sentence]


def select_sentences(passage: Sequence[str], question: Sequence[str], most: int) -> list[str]:
    """Return the words of the `most` sentences that fit `question` best; of equal ones the earlier."""
    sentences = split_sentences(passage)
    if len(sentences) <= most:
        return list(passage)
    asked = {word for word in question if any(map(str.isalnum, word))}
    shared = [asked.intersection(sentence) for sentence in sentences]
    spread = Counter(word for words in shared for word in words)
    # Rounded, for the sum over a set has no fixed order.
    scores = [round(sum(1.0 / spread[word] for word in words), 9) for words in shared]
    best = sorted(range(len(sentences)), key=lambda i: (-scores[i], i))[:most]
    return [word for i in sorted(best) for word in sentences[i]]
