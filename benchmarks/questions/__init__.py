"""The questions, in the order of the report."""

from __future__ import annotations

from benchmarks.questions import (
    chain,
    clients,
    in_flight,
    kernels,
    memory,
    sizes,
    small_calls,
    start,
)
from benchmarks.questions.base import Question

QUESTIONS: tuple[Question, ...] = (
    small_calls.QUESTION,
    in_flight.QUESTION,
    sizes.QUESTION,
    clients.QUESTION,
    chain.QUESTION,
    memory.QUESTION,
    start.QUESTION,
    kernels.QUESTION,
)
