"""The snippets of docs/frameworks.md, run with the real packages: what is not installed is skipped, and says so. Nothing needs a GPU."""

import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

DOCUMENT = pathlib.Path(os.environ.get("PTXINSPECT_DOCS", pathlib.Path(__file__).resolve().parents[2] / "docs")) / "frameworks.md"
#: What a section needs, and what its output must have.
SECTIONS = {
    "triton": ("triton", ["128 registers", "snippet.py", "24 configurations", "128  256  64  4", "! matmul"]),
    "inductor": ("triton", ["matmul", "num_warps", "snippet.py"]),
    "cute": ("cutlass", ["kernel_cutlass_scale", "64", "snippet.py"]),
    "numba": ("numba.cuda", ["axpy", "64", "snippet.py"]),
    "cupy": ("cupy", ["twice<float>", "twice<double>"]),
    "nvrtc": ("cuda.bindings", ["twice", "64", "twice.cu:1"]),
}


def blocks(section):
    found = re.findall(r"^```python\n# (\w+)\n(.*?)^```$", DOCUMENT.read_text(encoding="utf-8"), re.M | re.S)
    assert {name for name, _ in found} == set(SECTIONS)
    return "\n".join(text for name, text in found if name == section)


def is_installed(package):
    try:
        return importlib.util.find_spec(package) is not None
    except ImportError:
        return False


def run(folder, text, **environment):
    script = folder / "snippet.py"
    script.write_text(text, encoding="utf-8")
    cache = {"TRITON_CACHE_DIR": str(folder / "cache"), "NUMBA_CACHE_DIR": str(folder), "TRITON_DEFAULT_FP_FUSION": "1"}
    everything = {**os.environ, **cache, **environment}
    done = subprocess.run([sys.executable, str(script)], cwd=folder, env=everything, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def needs(package):
    if not is_installed(package):
        pytest.skip(f"SKIPPED: {package} is not installed: scripts/frameworks installs it")


@pytest.fixture(scope="session")
def triton_run(tmp_path_factory):
    """What the snippets about Triton print, and the folder with their cache."""
    needs("triton")
    folder = tmp_path_factory.mktemp("triton")
    return run(folder, blocks("triton")), folder


def test_triton(triton_run):
    printed, _ = triton_run
    for expected in SECTIONS["triton"][1]:
        assert expected in printed, printed


def test_inductor(triton_run, tmp_path):
    # Inductor's layout: its Python files by hash, and Triton's cache of each device below `triton`.
    _, folder = triton_run
    shutil.copytree(folder / "cache", tmp_path / "inductor" / "triton" / "0")
    (tmp_path / "inductor" / "ab").mkdir()
    (tmp_path / "inductor" / "ab" / "cabcdef.py").write_text("# generated\n")
    printed = run(tmp_path, blocks("inductor"), TORCHINDUCTOR_CACHE_DIR=str(tmp_path / "inductor"))
    for expected in SECTIONS["inductor"][1]:
        assert expected in printed, printed


@pytest.mark.parametrize("section", ["cute", "numba", "cupy", "nvrtc"])
def test_snippet(section, tmp_path):
    package, expectations = SECTIONS[section]
    needs(package)
    printed = run(tmp_path, blocks(section))
    for expected in expectations:
        assert expected in printed, printed


def test_tune():
    """What the package tries is what the command line tries."""
    import ptxinspect

    folder = pathlib.Path(os.environ.get("PTXINSPECT_TESTDATA", pathlib.Path(__file__).resolve().parents[2] / "testdata"))
    spills = folder / "ptx" / "spills.ptx"
    tuned = ptxinspect.tune(spills, ptxas="13.4", budget=30)
    assert any(row["figures"]["spill_bytes"] == 0 for row in tuned.kernels[0]["rows"]), str(tuned)
    arguments = [sys.executable, "-m", "ptxinspect", "tune", str(spills), "--ptxas", "13.4", "--budget", "30", "--format", "json"]
    assert tuned.to_json() == subprocess.run(arguments, capture_output=True, text=True, check=True).stdout
