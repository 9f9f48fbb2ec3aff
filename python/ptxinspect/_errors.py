"""What can go wrong. A message is what the command line would say."""

from __future__ import annotations

import json
from typing import Any, List

from ._model import Diagnostic, Unit


class Error(Exception):
    """Why there is no answer: what, where, expected, found, what to do."""

    #: The units that the error is about, those that went well included.
    units: List[Unit]

    def __init__(self, message: str, units: str = "[]") -> None:
        super().__init__(message)
        self._units = units
        self.units = [Unit(unit) for unit in json.loads(units)]

    def __reduce__(self) -> Any:
        return type(self), (str(self), self._units)

    @property
    def diagnostics(self) -> List[Diagnostic]:
        """ptxas's own errors, each with its PTX line, where it is ptxas that refused."""
        return [diagnostic for unit in self.units if unit.error for diagnostic in unit.error.diagnostics]


class InputError(Error, ValueError):
    """An argument, a file, or what is in it."""


class ToolchainError(Error):
    """There is no ptxas, or it cannot be had."""


class PtxasError(Error):
    """ptxas refuses the PTX: see :attr:`Error.diagnostics`."""


class CubinError(Error):
    """The cubin cannot be read."""


class TimeoutError(Error):
    """It is not done in the time it was given."""
