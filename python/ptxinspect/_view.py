"""Values of the engine with attributes: thin views of what its JSON says."""

from __future__ import annotations

import typing
from typing import Any, ClassVar, Dict, Iterator, Mapping, Optional, Type, TypeVar

V = TypeVar("V", bound="View")


class View:
    """A JSON object whose keys are attributes; what is not known is ``None``."""

    __slots__ = ("_data",)

    _nested: ClassVar[Optional[Dict[str, Type["View"]]]] = None

    def __init__(self, data: Mapping[str, Any]) -> None:
        self._data = data

    @classmethod
    def _classes(cls) -> Dict[str, Type["View"]]:
        """Which attributes are views of their own, from the annotations."""
        found = cls.__dict__.get("_nested")
        if found is None:
            views = ((name, _view_of(hint)) for name, hint in typing.get_type_hints(cls).items())
            found = {name: view for name, view in views if view is not None}
            cls._nested = found
        return found

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if name not in self._data:
            return self._absent(name)
        value = self._data[name]
        inner = self._classes().get(name)
        if inner is None or value is None:
            return value
        if isinstance(value, list):
            return [inner(one) for one in value]
        return inner(value)

    def _absent(self, name: str) -> Any:
        """What the JSON leaves out is an empty list, or nothing."""
        hint = typing.get_type_hints(type(self)).get(name)
        if hint is None:
            raise AttributeError(f"{type(self).__name__} has no {name!r}")
        return [] if typing.get_origin(hint) is list else None

    def to_dict(self) -> Dict[str, Any]:
        """Its JSON object; not to be changed."""
        return typing.cast(Dict[str, Any], self._data)

    def keys(self) -> Iterator[str]:
        """The names of its attributes."""
        return iter(self._data)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and isinstance(other, View) and self._data == other._data

    __hash__ = None  # type: ignore[assignment]

    def __dir__(self) -> Any:
        return [*super().__dir__(), *self._data]

    def __repr__(self) -> str:
        shown = ", ".join(f"{key}={_short(value)}" for key, value in list(self._data.items())[:6])
        more = ", …" if len(self._data) > 6 else ""
        return f"{type(self).__name__}({shown}{more})"


def _short(value: Any) -> str:
    if isinstance(value, list):
        return f"[{len(value)} items]" if value else "[]"
    return "{…}" if isinstance(value, dict) else repr(value)


def _view_of(hint: Any) -> Optional[Type[View]]:
    """The view inside ``X``, ``Optional[X]``, ``List[X]``."""
    if isinstance(hint, type):
        return hint if issubclass(hint, View) else None
    for inner in typing.get_args(hint):
        found = _view_of(inner)
        if found is not None:
            return found
    return None
