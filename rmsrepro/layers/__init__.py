"""Recurrent layers built on the norms: NormLSTM and NormGRU."""

from rmsrepro.layers.gru import NormGRU
from rmsrepro.layers.lstm import NormLSTM

__all__ = ["NormGRU", "NormLSTM"]
