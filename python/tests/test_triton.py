"""ptxinspect.triton against the real Triton, for GPUs that need not be there."""

import json

import pytest

triton = pytest.importorskip("triton", reason="SKIPPED: triton is not installed: scripts/frameworks installs it")
import triton.language as tl  # noqa: E402

import ptxinspect  # noqa: E402
import ptxinspect.triton  # noqa: E402


@triton.jit
def add(x, y, z, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(z + at, tl.load(x + at, mask=at < n) + tl.load(y + at, mask=at < n), mask=at < n)


@triton.jit
def outer(x, y, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    sums = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for k in range(n):
        sums += tl.load(x + k * BLOCK + at)[:, None] * tl.load(x + k * BLOCK + at)[None, :]
    tl.store(y + at[:, None] * BLOCK + at[None, :], sums)


@triton.jit
def product(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows, columns, inner = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    sums = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        left = tl.load(a + rows[:, None] * K + k + inner[None, :])
        right = tl.load(b + (k + inner[:, None]) * BN + columns[None, :])
        sums = tl.dot(left, right, sums)
    tl.store(c + rows[:, None] * BN + columns[None, :], sums)


@triton.jit
def specialised(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    left = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    right = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BN, BK])
    result = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BM, BN])
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    sums = tl.zeros((BM, BN), tl.float32)
    for k in tl.range(0, tl.cdiv(K, BK), warp_specialize=True):
        sums = tl.dot(left.load([row, k * BK]), right.load([column, k * BK]).T, sums)
    result.store([row, column], sums.to(tl.float16))


TYPES = {"x": "*fp32:16", "y": "*fp32:16", "z": "*fp32:16", "n": "i32"}
OUTER = {"x": "*fp32:16", "y": "*fp32:16", "n": "i32"}


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "1")
    return tmp_path / "cache"


def test_a_compiled_kernel_has_the_block_and_the_memory_of_its_launch():
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    signature = {"a": "*fp16", "b": "*fp16", "c": "*fp32", "K": "i32", "BM": "constexpr", "BN": "constexpr", "BK": "constexpr"}
    attributes = {(at,): [["tt.divisibility", 16]] for at in range(4)}
    source = ASTSource(product, signature, {"BM": 64, "BN": 64, "BK": 64}, attributes)
    compiled = triton.compile(source, target=GPUTarget("cuda", 80, 32), options={"num_warps": 8, "num_stages": 3})
    report = ptxinspect.triton.inspect(compiled)
    kernel = report.kernel("product")
    asked = {"threads": 256, "smem_dynamic": compiled.metadata.shared}
    assert compiled.metadata.shared > 0 and kernel.occupancy.threads == 256
    same = ptxinspect.occupancy("sm_80", kernel.registers, smem=kernel.resources.smem_bytes, barriers=kernel.resources.barriers, **asked)
    assert same.blocks_per_sm == kernel.occupancy.blocks_per_sm
    assert {line.file for line in kernel.source_lines} == {__file__}
    assert report.to_text() == str(ptxinspect.inspect(compiled.asm["cubin"], name="product", **asked))


@pytest.mark.parametrize(("arch", "threads"), [("sm_90a", 384), ("sm_100a", 256)])
def test_warps_of_warp_specialisation_count(arch, threads, cache):
    """Triton adds the warps of partitions to the four that were asked for; PTX and metadata have the sum."""
    types = {**{name: "*fp16:16" for name in "abc"}, **{name: "i32:16" for name in "MNK"}}
    report = ptxinspect.triton.inspect(specialised, arch, signature=types, constants={"BM": 128, "BN": 128, "BK": 64}, num_warps=4)
    kernel = report.kernel("specialised")
    assert kernel.launch.reqntid == [threads, 1, 1] and kernel.occupancy.threads == threads
    assert kernel.occupancy.blocks_per_sm == 1
    (entry,) = ptxinspect.triton.cache(cache)
    assert (entry.config["num_warps"], entry.threads) == (threads // 32, threads)


def test_what_is_missing_or_wrong_is_said():
    with pytest.raises(ValueError, match="it was not compiled in this process"):
        ptxinspect.triton.inspect(add)
    with pytest.raises(ValueError, match="add has no argument w: it has x, y, z, n, BLOCK"):
        ptxinspect.triton.inspect(add, "sm_90a", signature={**TYPES, "w": "i32"}, constants={"BLOCK": 64})
    with pytest.raises(ValueError, match="the type or the value of BLOCK is not given"):
        ptxinspect.triton.inspect(add, "sm_90a", signature=TYPES)
    with pytest.raises(ValueError, match="expected 'sm_90a' or 90"):
        ptxinspect.triton.inspect(add, "hopper", signature=TYPES, constants={"BLOCK": 64})
    with pytest.raises(TypeError, match="expected a kernel of triton.jit"):
        ptxinspect.triton.inspect(len)


def test_arguments_are_specialised_as_a_launch_does(cache):
    from triton.runtime.jit import MockTensor

    given = {"x": MockTensor(tl.float32), "y": MockTensor(tl.float32), "z": MockTensor(tl.float32), "n": 1024, "BLOCK": 512}
    by_arguments = ptxinspect.triton.inspect(add, "sm_90a", arguments=given, num_warps=4)
    by_types = ptxinspect.triton.inspect(add, "sm_90a", signature={**TYPES, "n": "i32:16"}, constants={"BLOCK": 512}, num_warps=4)
    assert by_arguments.rows() == by_types.rows()


def test_a_space_is_compiled_and_ranked():
    space = [{"BLOCK": block, "num_warps": warps} for block in (32, 64, 128) for warps in (1, 4)]
    table = ptxinspect.triton.compare(outer, [*space, {"BLOCK": 48, "num_warps": 4}], "sm_90a", signature=OUTER)
    assert len(table) == 7 and len(table.failed) == 1 and table[-1].config["BLOCK"] == 48
    assert "power of 2" in table[-1].error
    told = [entry.spills_in_loops for entry in table[:-1]]
    assert told == sorted(told) and told[0] == 0
    worst = table[-2]
    assert (worst.config["BLOCK"], worst.config["num_warps"]) == (128, 1) and worst.spills and worst.spills_in_loops > 0
    assert worst.spills_at.startswith(__file__) and worst.peak_at.startswith(__file__)
    assert "!" in str(table) and "<table" in table._repr_html_() and "x outer" in str(table)
    row = table.rows()[0]
    assert row["num_warps"] and row["registers"] and row["error"] is None
    assert json.loads(table.to_json())["entries"][0]["config"] == table[0].config
    # The same figures as the report of each, and as the command line's of its PTX with the same flags.
    for entry in table[:-1]:
        assert entry.report().rows()[0]["registers"] == entry.registers
    # Threads do not change what comes out.
    again = ptxinspect.triton.compare(outer, space, "sm_90a", signature=OUTER, jobs=1)
    assert [entry.row() for entry in again] == [entry.row() for entry in table[:-1]]


def test_what_ptxas_says_is_asked_for_or_not_known():
    table = ptxinspect.triton.compare(add, [{"BLOCK": 256, "num_warps": 4}], "sm_90a", signature=TYPES)
    assert table[0].advisories == []
    without = ptxinspect.triton.compare(add, [{"BLOCK": 256, "num_warps": 4}], "sm_90a", signature=TYPES, advisories=False)
    assert without[0].advisories is None


def test_autotune_asks_the_pruner():
    from triton.runtime.jit import MockTensor

    space = [triton.Config({"BLOCK": block}, num_warps=1) for block in (32, 64, 128)]
    pruner = ptxinspect.triton.prune(outer, "sm_90a")
    tuned = triton.autotune(configs=space, key=["n"], prune_configs_by={"early_config_prune": pruner})(outer)
    tuned.nargs = {"x": MockTensor(tl.float32), "y": MockTensor(tl.float32), "n": 64}
    kept = tuned.prune_configs({})
    assert [config.kwargs["BLOCK"] for config in kept] == [32, 64], kept
    # Where all spill the best stays; and what passes is the caller's to say.
    assert pruner([space[2]], tuned.nargs) == [space[2]]
    lenient = ptxinspect.triton.prune(lambda: tuned, "sm_90a", spills_in_loops=10**6)
    assert lenient(space, tuned.nargs) == space
    assert ptxinspect.triton.prune(outer, "sm_90a", top=1)(space, tuned.nargs) == [space[0]]


def test_a_cache_is_a_table(cache):
    space = [{"BLOCK": block, "num_warps": warps} for block in (64, 128, 256, 512) for warps in (1, 2, 4)]
    compared = ptxinspect.triton.compare(add, space, "sm_90a", signature=TYPES, advisories=False)
    table = ptxinspect.triton.cache(cache)
    assert len(table) == len(space) == len(compared)
    assert sorted(entry.registers for entry in table) == sorted(entry.registers for entry in compared)
    assert {entry.threads for entry in table} == {32, 64, 128}
    assert all(entry.advisories is None for entry in table), "a cubin does not say what ptxas warned of"
    entry = table[0]
    assert entry.report().kernels[0].registers == entry.registers
    # What is damaged is an entry that says so, and spoils no other.
    (cache / "bad").mkdir()
    (cache / "bad" / "broken.cubin").write_bytes(b"\x7fELF" + bytes(14) + b"\xbe\x00" + bytes(60))
    assert len(ptxinspect.triton.cache(cache)) == len(space) + 1 and len(ptxinspect.triton.cache(cache).failed) == 1


def test_every_entry_of_a_large_cache_is_read(cache, tmp_path):
    import shutil

    ptxinspect.triton.compare(
        outer, [{"BLOCK": 32, "num_warps": 1}, {"BLOCK": 32, "num_warps": 4}], "sm_90a", signature=OUTER, advisories=False
    )
    entries = [path for path in cache.iterdir() if (path / "outer.cubin").exists()]
    many = tmp_path / "many"
    for copy in range(100):
        shutil.copytree(entries[copy % len(entries)], many / f"K{copy:03}")
    assert len(ptxinspect.triton.cache(many)) == 100
