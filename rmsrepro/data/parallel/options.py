"""What a translation corpus is made of: plain values, so that a key can be made of them."""

from __future__ import annotations

from dataclasses import dataclass

from rmsrepro.errors import ConfigError


@dataclass(frozen=True)
class PairOptions:
    """Languages, subwords and rules of one corpus.

    Raises:
        ConfigError: a value that no corpus can have.
    """

    source: str = "en"
    target: str = "de"
    vocabulary: int = 8000
    """Subwords, one vocabulary for both languages; the four symbols and 256 bytes are among them."""
    lowercase: bool = False
    """Read the lower-cased variant of the files where the data set has one, else lower-case the text."""
    tokenized: bool = False
    """The text is tokenised already and is scored as it is."""
    max_length: int = 80
    """Subwords on either side of a training pair; longer pairs are dropped and counted."""
    limit_pairs: int | None = None
    """Train on the first so many pairs of the files; all of them for None."""
    folder: str = "parallel"
    """data=parallel: the folder of the files, below data.root or absolute."""
    train_stem: str = "train"
    """data=parallel: the training files are `<train_stem>.<source>` and `<train_stem>.<target>`, and so on."""
    valid_stem: str = "valid"
    test_stem: str = "test"

    def __post_init__(self) -> None:
        if not self.source or not self.target or self.source == self.target:
            raise ConfigError(
                f"task.source={self.source} and task.target={self.target}: two different language suffixes are needed"
            )
        for field, value in (
            ("vocabulary", self.vocabulary),
            ("max_length", self.max_length),
            ("limit_pairs", self.limit_pairs),
        ):
            if value is not None and value < 1:
                raise ConfigError(f"task.{field}={value}: at least 1 is needed")

    @property
    def languages(self) -> tuple[str, str]:
        """Source and target, the suffixes of their files."""
        return self.source, self.target
