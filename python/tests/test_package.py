"""The package against the command line that it carries, on recorded cubins: none of it needs ptxas."""

import concurrent.futures
import gc
import json
import multiprocessing
import os
import pathlib
import pickle
import resource
import signal
import subprocess
import sys
import time

import pytest

import ptxinspect


def command(*arguments):
    done = subprocess.run([sys.executable, "-m", "ptxinspect", *map(str, arguments)], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


@pytest.fixture(scope="session")
def cubin(testdata):
    return testdata / "cubin" / "blackwell-13.4-sm_100a.cubin"


def test_a_report_is_the_command_lines(testdata):
    for cubin in sorted((testdata / "cubin").glob("*-sm_90a.cubin"))[:4]:
        report = ptxinspect.inspect(cubin)
        said = command(cubin, "--format", "json")
        assert report.to_json() == said
        assert report.to_text() == command(cubin)
        kernels = [kernel for unit in json.loads(said)["units"] for kernel in unit["kernels"]]
        assert [kernel.to_dict() for kernel in report.kernels] == kernels
        assert report.to_dict() == json.loads(said)


def test_bytes_paths_and_strings_are_sources(cubin):
    from_path, from_string = ptxinspect.inspect(cubin), ptxinspect.inspect(str(cubin))
    from_bytes = ptxinspect.inspect(cubin.read_bytes(), name=str(cubin))
    assert from_path.to_json() == from_string.to_json() == from_bytes.to_json()
    with pytest.raises(TypeError, match="expected PTX text"):
        ptxinspect.inspect(3)


def test_attributes_are_the_figures(cubin, testdata):
    unknown = ptxinspect.inspect(testdata / "cubin/hopper-13.4-sm_90a.cubin", threads=128).kernel("pipeline").occupancy
    assert unknown.missing == ["smem_dynamic"] and unknown.blocks_per_sm is None and unknown.by_smem_dynamic[0].blocks_per_sm >= 1
    report = ptxinspect.inspect(cubin, threads=128)
    kernel = report.kernel("tensor_memory")
    assert kernel.occupancy.missing == []
    assert kernel.registers == kernel.resources.registers == 12
    assert kernel.pressure.gpr.peak == kernel.peak_live
    assert kernel.occupancy.blocks_per_sm >= 1 and kernel.loops[0].gpr.peak >= 1
    assert report.units[0].cubin.abi == 8
    with pytest.raises(AttributeError):
        kernel.no_such_thing
    row = report.rows()[0]
    assert row["kernel"] == "tensor_memory" and row["registers"] == 12 and row["blocks_per_sm"] >= 1
    assert pickle.loads(pickle.dumps(kernel)).to_dict() == kernel.to_dict()


def test_every_other_view_is_the_command_lines(cubin, testdata):
    assert ptxinspect.disassemble(cubin).to_text() == command("disasm", cubin)
    assert ptxinspect.annotate(cubin).to_html() == command("annotate", cubin, "--format", "html")
    assert ptxinspect.annotate(cubin).to_svg() == command("annotate", cubin, "--format", "svg")
    ptx = testdata / "ptx" / "hopper_warp_specialised.ptx"
    assert ptxinspect.timeline(ptx).to_json() == command("timeline", ptx, "--format", "json")
    hopper = testdata / "cubin/hopper-13.4-sm_90a.cubin"
    assert ptxinspect.cost(hopper, warps=[1, 4]).to_json() == command("cost", hopper, "--warps", "1,4", "--format", "json")
    before, after = testdata / "cubin/culprits-12.4-sm_80.cubin", testdata / "cubin/culprits-12.9-sm_120.cubin"
    assert ptxinspect.diff(before, after).to_json() == command("diff", before, after, "--format", "json")
    said = json.loads(command("occupancy", "--arch=sm_90a", "--registers=168", "--threads=384", "--format=json"))
    answer = ptxinspect.occupancy("sm_90a", registers=168, threads=384)
    assert answer.to_dict() == {key: said[key] for key in answer.keys()}


def test_loops_cost_cycles(testdata):
    found = ptxinspect.cost(testdata / "cubin/hopper-13.4-sm_90a.cubin", warps=range(1, 17))
    turns = [loop.shortest for kernel in found.kernels for loop in kernel.loops]
    assert turns and all(len(turn.with_warps) == 16 and turn.alone.cycles > 0 for turn in turns)
    assert "cycles" in found.to_text()
    with pytest.raises(ptxinspect.InputError, match="expected 1 to 16"):
        ptxinspect.cost(testdata / "cubin/hopper-13.4-sm_90a.cubin", warps=17)
    with pytest.raises(ptxinspect.InputError, match="no loop has an instruction of that line"):
        ptxinspect.cost(testdata / "cubin/hopper-13.4-sm_90a.cubin", line=1)


def test_a_notebook_shows_the_page(cubin):
    shown = ptxinspect.inspect(cubin)._repr_html_()
    assert shown.startswith("<iframe") and "tensor_memory" in shown
    assert ptxinspect.annotate(cubin)._repr_html_().startswith("<iframe")


def test_errors_carry_the_words_of_the_command_line():
    with pytest.raises(ptxinspect.InputError, match="cannot open absent.cubin") as caught:
        ptxinspect.inspect("absent.cubin")
    assert isinstance(caught.value, ptxinspect.Error) and isinstance(caught.value, ValueError)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    with pytest.raises(ptxinspect.InputError, match="sm_ninety"):
        ptxinspect.inspect(b"\x7fELF", arch="sm_ninety")
    with pytest.raises(ptxinspect.Error, match="cut off inside its header"):
        ptxinspect.inspect(b"\x7fELF")
    with pytest.raises(ptxinspect.ToolchainError):
        ptxinspect.inspect(".version 8.0\n.target sm_90\n", ptxas="/no/such/ptxas")
    with pytest.raises(ValueError, match="timeout"):
        ptxinspect.inspect("x.cubin", timeout=0)


def test_a_gate_without_a_baseline_says_so(cubin, tmp_path):
    with pytest.raises(ptxinspect.InputError, match="there is no baseline"):
        ptxinspect.gate([cubin], baseline=tmp_path / "none.json")
    done = command("gate", cubin, "--baseline", tmp_path / "lock.json", "--update")
    assert "records" in done
    verdict = ptxinspect.gate([cubin], baseline=tmp_path / "lock.json")
    assert verdict.passed and verdict and verdict.outcome == "pass" and verdict.findings == []


def test_threads_get_equal_answers(cubin):
    expected = ptxinspect.inspect(cubin).to_json()
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: ptxinspect.inspect(cubin).to_json(), range(64)))
    assert set(answers) == {expected}


def _report(path):
    return ptxinspect.inspect(path).to_json()


def test_a_forked_process_works_too(cubin):
    expected = _report(cubin)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert set(pool.map(_report, [cubin] * 4)) == {expected}


def test_memory_does_not_grow(cubin):
    data = cubin.read_bytes()

    def most():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    for _ in range(300):
        ptxinspect.inspect(data).rows()
    gc.collect()
    before = most()
    for _ in range(1000):
        ptxinspect.inspect(data).rows()
    assert most() - before < 16 * 1024, "kilobytes"


def test_the_model_has_what_the_schema_has():
    generator = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "python-model"
    if not generator.exists():
        pytest.skip("only in a checkout")
    subprocess.run([sys.executable, str(generator), "--check"], check=True)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_outlives_the_command(how, testdata, tmp_path):
    """As the program's own test has it: what ptxas has started ends with the command, however that ends."""
    pids, ptxas = tmp_path / "pids", tmp_path / "ptxas"
    version = "if [ \"$1\" = --version ]; then echo 'Cuda compilation tools, release 13.4, V13.4.92'; exit 0; fi"
    ptxas.write_text(f"#!/bin/sh\n{version}\nsleep 300 & echo $$ $! >{pids}.new; mv {pids}.new {pids}; wait\n")
    ptxas.chmod(0o755)
    arguments = [sys.executable, "-m", "ptxinspect", str(testdata / "ptx/saxpy.ptx"), "--ptxas", str(ptxas)]
    started = subprocess.Popen(arguments, env={**os.environ, "TMPDIR": str(tmp_path)}, stderr=subprocess.DEVNULL)

    def wait(done):
        until = time.monotonic() + 20
        while not done():
            assert time.monotonic() < until
            time.sleep(0.01)

    def is_gone(pid):
        try:
            return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
        except FileNotFoundError:
            return True

    wait(pids.exists)
    # Whoever has started it needs a moment to take note of that.
    time.sleep(0.3)
    started.send_signal(how)
    assert started.wait(timeout=20) != 0
    for pid in pids.read_text().split():
        wait(lambda: is_gone(pid))


def test_exit_statuses_are_the_programs(cubin, tmp_path):
    def status(*arguments):
        return subprocess.run([sys.executable, "-m", "ptxinspect", *map(str, arguments)], capture_output=True, check=False).returncode

    assert status("--version") == 0
    assert status("absent.cubin") == 2
    assert status("--no-such-flag") == 2
    old, new = cubin, cubin.with_name("culprits-13.4-sm_90.cubin")
    assert status("diff", "--exit-code", old, new) == 1
