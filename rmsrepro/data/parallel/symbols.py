"""The first ids of every subword vocabulary."""

PAD, UNK, BOS, EOS = 0, 1, 2, 3
