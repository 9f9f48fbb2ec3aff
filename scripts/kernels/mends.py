"""Makes the changes that ptxinspect proposes for kernels that go wrong, and says which of those run then on a GPU."""
import os

from .compare import LOUD, read_record, report, table


def patched(text, mend):
    """The text with a change made; none where it is not told to the letter."""
    lines = text.split("\n")
    for line in mend["lines"]:
        before, after = line["replaces"], line["instruction"]
        at = line["ptx_line"] - 1
        if before is None or "\n" in before or before not in lines[at]:
            return None
        start = line["column"] - 1
        assert lines[at][start:].startswith(before), (lines[at], line)
        lines[at] = lines[at][:start] + after + lines[at][start + len(before):]
    return "\n".join(lines)


def write(folder, out, program, ptxas):
    """Writes each kernel of a folder that a change mends, changed, under its name. Exit status."""
    paths = sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".ptx"))
    units = report(paths, program, ptxas)
    if units is None:
        return 2
    os.makedirs(out, exist_ok=True)
    told, written = 0, 0
    for unit in units:
        barriers = unit["kernels"][0]["barriers"] if unit.get("kernels") else None
        loud = [issue for issue in (barriers or {}).get("issues", []) if issue["confidence"] in LOUD]
        told += bool(loud)
        mend = next((issue["mend"] for issue in loud if issue["mend"]), None)
        with open(unit["input"], encoding="utf-8") as file:
            text = patched(file.read(), mend) if mend else None
        if text is not None:
            written += 1
            with open(os.path.join(out, os.path.basename(unit["input"])), "w", encoding="utf-8") as file:
                file.write(text)
    print(f"{len(paths)} kernels, {told} with a finding, {written} changed as it proposes")
    return 0


def tell(record, after):
    """Prints a row a family: those that hang or fault, those of them that were changed, those that run then. Exit status."""
    seen, changed = read_record(record), read_record(after)
    rows, left = {}, []
    for name, entry in sorted(seen.items()):
        if entry["outcome"] == "runs":
            continue
        row = rows.setdefault(entry["family"], [0, 0, 0])
        row[0] += 1
        if name in changed:
            row[1] += 1
            row[2] += changed[name]["outcome"] == "runs"
            if changed[name]["outcome"] != "runs":
                left.append((name, entry["outcome"], entry["change"], changed[name]["outcome"]))
    table("hang or fault | changed as proposed | of these run", rows, left)
    return 1 if left else 0
