"""A model that answers when a test says so: for what happens while answers are waited for."""

from __future__ import annotations

import threading
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress

from peira.core.models import Reply, Request
from peira.models.scripted import last_text
from peira.testing.desk import PATIENCE


class HeldReplies:
    """The `replies` of a desk. `asked` are the questions so far, in the order in which they came.

    Waiting for questions that do not come raises TimeoutError.
    """

    def __init__(self) -> None:
        self.asked: list[str] = []
        self._held: dict[str, Future[Reply]] = {}
        self._changed = threading.Condition()

    def __call__(self, request: Request) -> Future[Reply]:
        with self._changed:
            question = last_text(request)
            self.asked.append(question)
            self._held[question] = held = Future[Reply]()
            self._changed.notify_all()
            return held

    def wait_asked(self, *questions: str) -> None:
        """Until all these wait for their answers."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._held.keys() >= set(questions), PATIENCE):
                missing = ", ".join(question for question in questions if question not in self._held)
                raise TimeoutError(f"nobody asked {missing} within {PATIENCE:g} s")

    def answer(self, question: str, reply: str | BaseException) -> None:
        """Answer whoever asked this, if they still wait."""
        held = self._held.pop(question)
        with suppress(InvalidStateError):
            if isinstance(reply, BaseException):
                held.set_exception(reply)
            else:
                held.set_result(Reply(reply))
