"""What a run takes: the kernels, and the layouts and descriptors as ptxinspect explains them."""
import hashlib
import json
import os
import random
import subprocess

from . import forms, ptx, tiles
from .values import BITS, NIBBLES, sparsity

TILE = ("start", "leading_bytes", "stride_bytes", "swizzle", "base_offset")


def explain(program, *words):
    asked = subprocess.run([program, "explain", *words, "--format", "json"], capture_output=True, text=True)
    if asked.returncode != 0:
        raise SystemExit(f"{program} explain {' '.join(words)}: {asked.stderr.strip()}")
    return json.loads(asked.stdout)


def layouts(program, opcode):
    """Those of an opcode, as short as they are needed."""
    found = explain(program, opcode).get("fragments") or []
    if not found:
        raise SystemExit(f"{program} knows no layout of {opcode}")
    names = ("operand", "rows", "columns", "element", "thread_bits", "warp", "warps")
    return [{**{name: layout[name] for name in names}, "registers": [register["elements"] for register in layout["registers"]]}
            for layout in found]


def digest(found):
    """Of layouts, to tell whether they have changed."""
    return hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()[:16]


def descriptor(program, value):
    """A number, what is said of it, and what is said to be wrong with it."""
    page = explain(program, "sdesc", f"{value:#x}", "wgmma")["descriptors"][0]
    tile = {name: page["tile"][name] for name in TILE}
    return {"value": f"{value:#x}", "tile": tile, "wrong": page["wrong"]}


def launches(program, job, source):
    """Descriptors of A and B, and metadata, of each launch."""
    if job["family"].startswith("mma.sp"):
        return [{"nibble": nibble} for nibble in NIBBLES[sparsity(forms.parts(job["opcode"])[1][1])]]
    if not job["family"].startswith(("wgmma", "descriptors")):
        return [{}]
    (m, n, k), (_, a, b), is_sparse = forms.parts(job["opcode"])
    found = []
    for _ in range(job.get("count", 1)):
        taken = set()
        one = {"b": descriptor(program, tiles.random(source, job["transposed"][1], n, k, b, taken))}
        if job["a"] != "registers":
            stored = k // 2 if is_sparse else k
            one["a"] = descriptor(program, tiles.random(source, job["transposed"][0], m, stored, a, taken))
        if is_sparse:
            one["nibble"] = source.choice(NIBBLES[sparsity(a)])
        found.append(one)
    return found


def write(folder, program, seed):
    os.makedirs(folder, exist_ok=True)
    known, jobs = {}, []
    for index, job in enumerate(forms.every()):
        opcode = job["opcode"]
        known[opcode] = known.get(opcode) or layouts(program, opcode)
        job = {"name": f"{index:04}", **job, "layouts": known[opcode]}
        assert all(layout["element"] in BITS for layout in job["layouts"])
        job["launches"] = launches(program, job, random.Random(f"{seed} {index}"))
        with open(os.path.join(folder, job["name"] + ".ptx"), "w", encoding="utf-8") as out:
            out.write(ptx.kernel(job))
        jobs.append(job)
    with open(os.path.join(folder, "jobs.jsonl"), "w", encoding="utf-8") as out:
        out.writelines(json.dumps(job, separators=(",", ":")) + "\n" for job in jobs)
    numbers = {one[side]["value"] for job in jobs for one in job["launches"] for side in "ab" if side in one}
    print(f"{len(jobs)} kernels and {len(numbers)} descriptors in {folder}")
    return 0


def compare(summary, program):
    """Whether what is said today is what was seen on hardware: layouts by their digests, descriptors by what they mean."""
    with open(summary, encoding="utf-8") as file:
        lines = [json.loads(text) for text in file]
    known, changed, numbers = {}, [], 0
    for line in lines:
        opcode = line["opcode"]
        known[opcode] = known.get(opcode) or digest(layouts(program, opcode))
        if not line["equal"] or known[opcode] != line["layouts"]:
            changed.append(opcode)
        for value, *seen in line.get("descriptors", []):
            numbers += 1
            if list(descriptor(program, int(value, 16))["tile"].values()) != seen:
                changed.append(f"{value} of wgmma")
    print("\n".join(f"not as seen on hardware: {what}" for what in changed) or
          f"{len(known)} opcodes and {numbers} descriptors are as seen on hardware")
    return 1 if changed else 0
