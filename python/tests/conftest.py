import os
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def testdata() -> pathlib.Path:
    """Recorded cubins and PTX."""
    return pathlib.Path(os.environ.get("PTXINSPECT_TESTDATA", ROOT / "testdata"))
