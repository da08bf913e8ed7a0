"""A reproducible experiment harness for root mean square layer normalisation and its successors."""

__version__ = "0.1.0"
