"""What ptxinspect estimates, against what was measured."""
import collections
import concurrent.futures
import json
import os
import subprocess


def estimates(program, cubin):
    """Cycles of a turn of the kernel's loop, by warps on a scheduler; 0 stands for one alone."""
    # Bank conflicts are decided from the PTX.
    if os.path.basename(cubin).startswith(("conflicts_", "lds_", "sts_")):
        cubin = cubin[:-len("cubin")] + "ptx"
    asked = subprocess.run([program, "cost", cubin, "--warps", "1..16", "--threads", "1024", "--format", "json"], capture_output=True, text=True)
    if asked.returncode != 0:
        return {}, asked.stderr.strip()
    loops = [loop for unit in json.loads(asked.stdout)["units"] for kernel in unit["kernels"] for loop in kernel["loops"] or []]
    if not loops:
        return {}, "no loop"
    turn = max(loops, key=lambda loop: loop["shortest"]["instructions"])["shortest"]
    return {at["warps_per_scheduler"]: at for at in [turn["alone"], *turn["with_warps"]]}, None


def real(program, ptx):
    """The same of a loop of a kernel that somebody wrote, per turn of the PTX."""
    with open(ptx[:-4] + ".json") as file:
        manifest = json.load(file)
    asked = subprocess.run([program, "cost", ptx, "--arch", "sm_90a", "--warps", "1..16", "--smem-dynamic", str(manifest["smem"]), "--format", "json"], capture_output=True, text=True)
    if asked.returncode != 0:
        return {}, asked.stderr.strip()
    loops = [loop for unit in json.loads(asked.stdout)["units"] for kernel in unit["kernels"] for loop in kernel["loops"] or []]
    inside = [loop for loop in loops if manifest["first"] <= (loop["ptx_line"] or 0) <= manifest["last"]]
    if not inside:
        return {}, "no loop"
    found = max(inside, key=lambda loop: loop["shortest"]["instructions"])
    if not found["ptx_turns"]:
        return {}, "no loop"
    turn = found["longest"] or found["shortest"]
    scale = lambda at: {**at, "cycles": at["cycles"] / found["ptx_turns"]}
    return {at["warps_per_scheduler"]: scale(at) for at in turn["with_warps"]}, None


def compare(record, folder, program, worst):
    with open(record) as file:
        rows = [json.loads(line) for line in file]

    def one(row):
        path = os.path.join(folder, row["loop"])
        return row, *(real(program, path + ".ptx") if os.path.exists(path + ".json") else estimates(program, path + ".cubin"))

    errors, families, named, missing = [], collections.defaultdict(list), [], 0
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for row, found, why in pool.map(one, rows):
            if why == "no loop":
                continue
            if why:
                print(f"{row['loop']}: {why}")
                missing += 1
                continue
            off = {}
            for warps, cycles in row["cycles"].items():
                if int(warps) in found and cycles >= 1:
                    off[int(warps)] = (found[int(warps)]["cycles"] - cycles) / cycles
                    families[row["loop"].split("_")[0]].append(abs(off[int(warps)]))
            errors += [abs(value) for value in off.values()]
            if off:
                named.append((max(off.values(), key=abs), row["loop"], off))
    for value, name, off in sorted(named, key=lambda entry: -abs(entry[0]))[:worst]:
        print(f"{name:28} " + "  ".join(f"{warps}: {100 * error:+.1f}" for warps, error in off.items()))
    mean = lambda values: sum(values) / len(values)
    within = lambda values, limit: sum(value <= limit for value in values) / len(values)
    for family, values in sorted(families.items()):
        print(f"{family:20} {len(values):5} points  mean {100 * mean(values):5.2f} %  within 15 % {100 * within(values, 0.15):6.2f} %")
    print(f"{'all':20} {len(errors):5} points  mean {100 * mean(errors):5.2f} %  within 5 % {100 * within(errors, 0.05):6.2f} %  "
          f"within 15 % {100 * within(errors, 0.15):6.2f} %, {len(named)} loops, {missing} without an estimate")
    return 0 if mean(errors) <= 0.05 and within(errors, 0.15) >= 0.95 and not missing else 1


def bounds(record, folder, program, warps=8):
    """Twelve cycles more for the part that bounds a loop are seen in its time, two thirds of them at least."""
    rows = collections.defaultdict(dict)
    with open(record) as file:
        for row in map(json.loads, file):
            name, _, variant = row["loop"].partition(".")
            rows[name][variant] = row["cycles"].get(str(warps))
    confirmed = refuted = untried = 0
    for name, cycles in rows.items():
        found, _ = estimates(program, os.path.join(folder, name + ".as_it_is.cubin"))
        if warps not in found or not cycles.get("as_it_is"):
            continue
        part = found[warps]["part"].replace(" ", "_").replace("/", "-") if found[warps]["bound"] == "part" else None
        # Twelve instructions more are twelve issues more.
        more = cycles.get("FMA" if part == "issue" else part)
        if not more:
            untried += 1
        elif (more - cycles["as_it_is"]) / warps >= 8:
            confirmed += 1
        else:
            refuted += 1
            print(f"{name}: {part}, {(more - cycles['as_it_is']) / warps:.1f} cycles more")
    print(f"{confirmed} bounds confirmed, {refuted} not, {untried} of a kind that no variant adds to")
    return 0 if refuted <= 0.1 * confirmed else 1


def pack(record, folder, program, into):
    """One line for each loop: its words as hex, and the cycles."""
    with open(record) as file:
        rows = [json.loads(line) for line in file]
    with open(into, "w") as out:
        for row in rows:
            cubin = os.path.join(folder, row["loop"] + ".cubin")
            listed = subprocess.run([program, "disasm", cubin, "--format", "json"], capture_output=True, text=True)
            words = [entry for entry in instructions(json.loads(listed.stdout))]
            back = [(entry, target(entry)) for entry in words if " BRA " in " " + entry["text"]]
            back = [(entry["pc"], to) for entry, to in back if to is not None and to < entry["pc"]]
            if not back:
                continue
            last, first = back[0]
            code = "".join(entry["hex"] for entry in words if first <= entry["pc"] <= last)
            out.write(json.dumps({"loop": row["loop"], "words": code, "cycles": row["cycles"]}) + "\n")
    return 0


def target(entry):
    word = entry["text"].split()[-1]
    return int(word, 16) if word.startswith("0x") else None


def instructions(value):
    if isinstance(value, dict):
        if "hex" in value and "text" in value:
            yield value
        else:
            for inner in value.values():
                yield from instructions(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from instructions(inner)
