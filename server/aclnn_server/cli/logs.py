"""The server's log: one JSON object a line, on standard error."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonFormatter(logging.Formatter):
    """Formats a record as one line of JSON.

    Keys: ``time`` (UTC, ISO 8601, milliseconds), ``level``, ``logger``, ``message``, ``exception`` where
    there is one, and whatever the record was given as ``extra``.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Formats one record."""
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, object] = {
            "time": time.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {key: value for key, value in vars(record).items() if key not in _STANDARD}
        if record.exc_info and record.exc_info[0] is not None:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, ensure_ascii=False)


def start(level: str) -> None:
    """Sends all logging of the process to standard error.

    Args:
        level: lowest level that is written: debug, info, warning or error.
    """
    output = logging.StreamHandler(sys.stderr)
    output.setFormatter(JsonFormatter())
    logging.basicConfig(level=level.upper(), handlers=[output], force=True)
