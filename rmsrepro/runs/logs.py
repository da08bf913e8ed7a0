"""The run's log file: everything goes there, and warnings to the terminal as well."""

import logging
import sys
from pathlib import Path

LOGGER_NAME = "rmsrepro"


class _FileHandler(logging.FileHandler):
    """Appends to the log; when that fails (disk full) it says so once instead of once per line."""

    def handleError(self, record: logging.LogRecord) -> None:
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            super().handleError(record)
            return
        logging.getLogger(LOGGER_NAME).removeHandler(self)
        print(
            f"WARNING: cannot write {self.baseFilename} ({error.strerror}); logging to it stops",
            file=sys.stderr,
        )


class _TerminalHandler(logging.Handler):
    """Writes to whatever sys.stderr is at that moment, so that a progress bar can print around it."""

    def emit(self, record: logging.LogRecord) -> None:
        print(self.format(record), file=sys.stderr)


def setup_run_logging(log_path: Path) -> logging.Logger:
    """Send the ``rmsrepro`` logger to ``log_path`` (appending) and its warnings to stderr; return it.

    A second call moves the logger to the new file. Raises OSError if the file cannot be opened.
    """
    file_handler = _FileHandler(log_path, encoding="utf-8")
    file_handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    terminal_handler = _TerminalHandler(logging.WARNING)
    terminal_handler.setFormatter(logging.Formatter("%(levelname)s: %(message)s"))

    logger = logging.getLogger(LOGGER_NAME)
    for handler in tuple(logger.handlers):
        if isinstance(handler, _FileHandler | _TerminalHandler):
            logger.removeHandler(handler)
            handler.close()
    logger.addHandler(file_handler)
    logger.addHandler(terminal_handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False  # whoever configures the root logger would print every line again
    return logger
