"""Whether an executed notebook shows what its cells are about."""

import json
import sys

EXPECTED = {
    "report": ("<iframe", "tensor_memory"),
    "table": ("<table", "sm_1"),
    "difference": ("<iframe", "culprits-12.4-sm_80.cubin"),
    "timeline": ("<svg", "producer"),
}
with open(sys.argv[1], encoding="utf-8") as file:
    cells = {cell["id"]: cell for cell in json.load(file)["cells"]}
for name, expected in EXPECTED.items():
    shown = "".join("".join(output.get("data", {}).get("text/html", "")) for output in cells[name]["outputs"])
    missing = [text for text in expected if text not in shown]
    if missing:
        sys.exit(f"{sys.argv[1]}: cell {name} does not show {missing}: {shown[:200]!r}")
print(f"{len(EXPECTED)} cells show what they are about")
