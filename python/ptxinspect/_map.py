"""Many sources, on whatever executor there is."""

from __future__ import annotations

import collections
from typing import Any, Callable, Deque, Dict, Iterable, Iterator, Mapping, Protocol, Union, cast

from ._errors import Error
from ._results import Report


class _Future(Protocol):
    def result(self) -> Any: ...


class _Executor(Protocol):
    """As ``concurrent.futures`` has them, and whoever does as they do."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> _Future: ...


def _answer(job: Dict[str, Any]) -> Union[Report, Error]:
    """One job, in the process that it was sent to."""
    from . import inspect

    try:
        return inspect(**job)
    except Error as error:
        return error


def over(
    jobs: Iterable[Any], executor: _Executor, ahead: int, is_job: Callable[[Any], bool], common: Mapping[str, Any]
) -> Iterator[Union[Report, Error]]:
    """See :func:`ptxinspect.map`."""
    if ahead < 1:
        raise ValueError(f"ahead={ahead}: expected 1 or more")
    waiting: Deque[_Future] = collections.deque()
    for job in jobs:
        own = {"source": job} if is_job(job) else dict(job)
        waiting.append(executor.submit(_answer, {**common, **own}))
        if len(waiting) >= ahead:
            yield cast(Union[Report, Error], waiting.popleft().result())
    while waiting:
        yield cast(Union[Report, Error], waiting.popleft().result())
