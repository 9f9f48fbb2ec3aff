"""Many sources, on whatever executor there is."""

from __future__ import annotations

import collections
from typing import Any, Callable, Deque, Dict, Iterable, Iterator, Mapping, Protocol, Tuple, Union, cast

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


def _result(executor: _Executor, job: Dict[str, Any], future: _Future) -> Union[Report, Error]:
    """An answer, asked for once more where the executor lost it: a worker that leaves may take results along."""
    try:
        found = future.result()
    except Exception:
        found = executor.submit(_answer, job).result()
    return cast(Union[Report, Error], found)


def over(
    jobs: Iterable[Any], executor: _Executor, ahead: int, is_job: Callable[[Any], bool], common: Mapping[str, Any]
) -> Iterator[Union[Report, Error]]:
    """See :func:`ptxinspect.map`."""
    if ahead < 1:
        raise ValueError(f"ahead={ahead}: expected 1 or more")
    waiting: Deque[Tuple[Dict[str, Any], _Future]] = collections.deque()
    for job in jobs:
        own = {"source": job} if is_job(job) else dict(job)
        whole = {**common, **own}
        waiting.append((whole, executor.submit(_answer, whole)))
        if len(waiting) >= ahead:
            yield _result(executor, *waiting.popleft())
    while waiting:
        yield _result(executor, *waiting.popleft())
