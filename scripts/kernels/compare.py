"""Holds what ptxinspect says of a set of kernels against what a GPU did with them (the record of `fuzz --run`)."""
import json
import os
import subprocess
import tempfile

LOUD = ("likely", "certain")


def read_record(path):
    with open(path, encoding="utf-8") as file:
        return {entry["name"]: entry for entry in map(json.loads, file)}


def report(paths, program, ptxas):
    """The units of one report; none, and why on the terminal, where there is none."""
    with tempfile.TemporaryDirectory() as work:
        out = os.path.join(work, "report.json")
        command = [program, *paths, "--arch", "sm_90a", "--format", "json", "-o", out]
        ran = subprocess.run(command + (["--ptxas", ptxas] if ptxas else []), stderr=subprocess.PIPE, text=True)
        if ran.returncode != 0 and not os.path.exists(out):
            print(ran.stderr.strip())
            return None
        with open(out, encoding="utf-8") as file:
            return json.load(file)["units"]


def table(columns, rows, others):
    """Prints a row a family, then those that it does not hold for."""
    print(f"| family | {columns} |")
    print("|---" * (columns.count("|") + 2) + "|")
    for family in sorted(rows):
        print(f"| {family} | " + " | ".join(map(str, rows[family])) + " |")
    for row in others:
        print(*row, sep="  ")


def compare(folder, record, program, ptxas):
    """Prints a row a family and every disagreement. Exit status: 0 they agree, 1 they do not, 2 it could not be told."""
    seen = read_record(record)
    paths = sorted(os.path.join(folder, name + ".ptx") for name in seen if os.path.exists(os.path.join(folder, name + ".ptx")))
    if not paths:
        print(f"no kernel of {record} is in {folder}")
        return 2
    units = report(paths, program, ptxas)
    if units is None:
        return 2
    rows, disagreements = {}, []
    for unit in units:
        name = os.path.basename(unit["input"])[: -len(".ptx")]
        entry, kernels = seen[name], unit.get("kernels") or []
        barriers = kernels[0]["barriers"] if kernels else None
        if barriers is None:
            disagreements.append((name, entry["outcome"], "no answer"))
            continue
        loud = [issue for issue in barriers["issues"] if issue["confidence"] in LOUD]
        ends = (barriers["execution"] or {}).get("verdict") == "ends"
        row = rows.setdefault(entry["family"], [0] * 6)
        said = "; ".join(f"{issue['code']} {issue['confidence']}" for issue in loud) or "nothing"
        if entry["outcome"] != "runs":
            row[0] += 1
            row[1] += bool(loud)
            if not loud or ends:
                disagreements.append((name, entry["outcome"], entry["change"], said))
        else:
            right = entry["change"] == "none"
            row[2 if right else 4] += 1
            row[3 if right else 5] += bool(loud)
            if loud and (right or any(issue["confidence"] == "certain" for issue in loud)):
                disagreements.append((name, entry["outcome"], entry["change"], said))
    table("hang or fault | of these found | right, and run | of these with a finding | changed, and run | with a finding", rows, disagreements)
    return 1 if disagreements else 0
