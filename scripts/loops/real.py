"""Innermost loops of kernels that somebody wrote, each so that it runs as often as it is asked to, on data that stay in the first cache.

A loop stays as its compiler wrote it, but for three things: a counter decides when it ends, a clock stands on either side, and what its
addresses of global memory grow by each turn is a parameter that is 0. Blocks all take the place of the first, each with pointers of its own,
and only those of one SM run.
"""
import json
import os
import re

# Bytes from a block's data to the next one's.
APART = 160 << 10
LABEL = re.compile(r"^\s*(\$?[\w$]+):")
BRANCH = re.compile(r"^(?:@!?(%\w+)\s+)?bra(?:\.uni)?\s+(\$?[\w$]+);")
ENTRY = re.compile(r"\.entry\s+([\w$]+)\s*\(([^)]*)\)", re.S)
REGISTER = re.compile(r"%\w+")
# Whoever waits for these waits for another warp or for a copy that this kernel would not start.
REFUSED = ("mbarrier", "cp.async.bulk", "ret;", "call", "brx", "setmaxnreg", "tcgen05", "barrier.cluster")


class Loop:
    """One kernel with a clock around one of its loops; `text` is the whole file."""

    def __init__(self, name, lines, parameters, threads, smem):
        self.name, self.lines, self.parameters, self.threads, self.smem = name, lines, parameters, threads, smem

    def text(self):
        return "\n".join(self.lines) + "\n"

    def manifest(self):
        place = {word: self.lines.index(line) + 1 for line in self.lines for word in ("%cyc_start, %clock64", "@%cyc_again") if word in line}
        first, last = place["%cyc_start, %clock64"], place["@%cyc_again"]
        return {"parameters": self.parameters, "threads": self.threads, "smem": self.smem, "first": first, "last": last}


def statement(line):
    return line.split("//")[0].strip()


def loops(lines):
    """Innermost loops that one conditional branch closes and that nothing else leaves: first and last line."""
    labels, branches = {}, []
    for number, line in enumerate(lines):
        if found := LABEL.match(line):
            labels[found[1]] = number
        elif found := BRANCH.match(statement(line)):
            branches.append((number, found[1], found[2]))
    closed = [(labels[to], number, guard) for number, guard, to in branches if labels.get(to, number) < number]
    for first, last, guard in closed:
        inside = [branch for branch in branches if first < branch[0] < last]
        others = [branch for branch in branches if labels.get(branch[2]) == first and branch[0] != last]
        leaves = any(not first < labels.get(to, -1) <= last for _, _, to in inside)
        above = next((statement(line) for line in reversed(lines[:first]) if statement(line) and not LABEL.match(line) and not statement(line).startswith(".")), "")
        body = [statement(line) for line in lines[first:last]]
        if guard and not others and not leaves and not above.startswith("bra") and not any(word in line for line in body for word in REFUSED):
            yield first, last


def still(body):
    """The body with what addresses of global memory grow by replaced by a register that is 0."""
    parsed = []
    for line in body:
        text = statement(line)
        if not text or text.startswith((".", "$", "@")) and not text.startswith("@%"):
            parsed.append((None, [], text))
            continue
        text = re.sub(r"^@!?%\w+\s+", "", text)
        operation, _, rest = text.partition(" ")
        operation, _, tail = operation.partition("\t") if "\t" in operation else (operation, "", "")
        operands = [word.strip() for word in (tail + " " + rest).rstrip(";").split(",")]
        parsed.append((operation, operands, text))
    wanted = set()
    for operation, _, text in parsed:
        if operation and re.match(r"(ld|st|red|atom)\.global|cp\.async\.c[ag]|ld\.global", operation):
            wanted.update(REGISTER.findall(" ".join(re.findall(r"\[[^\]]*\]", text))))
    defined = {}
    for index, (operation, operands, _) in enumerate(parsed):
        if operation and operands and operands[0].startswith("%") and not operation.startswith(("st", "bar", "cp", "red")):
            defined.setdefault(operands[0], []).append(index)
    todo = list(wanted)
    while todo:
        for index in defined.get(todo.pop(), []):
            for register in REGISTER.findall(",".join(parsed[index][1][1:])):
                if register not in wanted:
                    wanted.add(register)
                    todo.append(register)
    moved = {(operands[1], operands[0]) for operation, operands, _ in parsed if operation and operation.startswith("mov") and len(operands) == 2}
    out = list(body)
    for index, (operation, operands, text) in enumerate(parsed):
        if operation not in ("add.s64", "add.s32") or len(operands) != 3 or operands[0] not in wanted:
            continue
        target, source, by = operands
        if target == source or (target, source) in moved:
            zero = "%cyc_zero" if operation == "add.s64" else "%cyc_none"
            out[index] = body[index].replace(f"{source}, {by};", f"{source}, {zero};")
    return out


def of_file(path):
    """Every loop of a file of PTX with one kernel; beside it is a JSON that says the bytes of its shared memory."""
    with open(path) as file:
        text = file.read()
    entry = ENTRY.search(text)
    threads = re.search(r"\.(?:reqntid|maxntid)\s+(\d+)", text)
    if not entry or not threads or len(ENTRY.findall(text)) != 1:
        return
    smem = 0
    if os.path.exists(path[:-4] + ".json"):
        with open(path[:-4] + ".json") as file:
            smem = json.load(file).get("smem", 0)
    parameters = re.findall(r"\.param\s+\.([usbf]\d+)", entry[2])
    more = ",\n\t.param .u64 cyc_clocks,\n\t.param .u32 cyc_turns,\n\t.param .u64 cyc_still"
    text = text[: entry.start()] + f".entry loop({entry[2].rstrip()}{more}\n)" + text[entry.end():]
    # The debugging sections name lines that move.
    text = re.sub(r"\n\t?\.section[^{]*\{.*?\n\t?\}", "", text, flags=re.S)
    lines = [line for line in text.split("\n") if not statement(line).startswith((".loc", ".file"))]
    lines = [re.sub(r"%n?ctaid\.\w", lambda found: "%cyc_one" if found[0].startswith("%n") else "%cyc_none", line) for line in lines]
    last_register = max(number for number, line in enumerate(lines) if statement(line).startswith(".reg"))
    for place, (first, last) in enumerate(loops(lines)):
        head = lines[: last_register + 1] + [
            "\t.reg .b32 %cyc_turns, %cyc_none, %cyc_one, %cyc_sm, %cyc_warp, %cyc_thread;",
            "\t.reg .b64 %cyc_zero, %cyc_start, %cyc_end, %cyc_clocks, %cyc_block;",
            "\t.reg .pred %cyc_again;",
            "\tld.param.u32 %cyc_turns, [cyc_turns];",
            "\tld.param.u64 %cyc_zero, [cyc_still];",
            "\tcvt.u32.u64 %cyc_none, %cyc_zero;",
            "\tadd.s32 %cyc_one, %cyc_none, 1;",
            "\tmov.u32 %cyc_sm, %ctaid.x;",
            f"\tmul.wide.u32 %cyc_block, %cyc_sm, {APART};",
            # One SM has the second cache to itself.
            "\tmov.u32 %cyc_sm, %smid;",
            "\tsetp.ne.u32 %cyc_again, %cyc_sm, 0;",
            "\t@%cyc_again exit;",
        ]
        around = [
            "\tadd.s32 %cyc_turns, %cyc_turns, -1;",
            "\tsetp.ne.s32 %cyc_again, %cyc_turns, 0;",
            "\t@%cyc_again bra " + BRANCH.match(statement(lines[last]))[2] + ";",
            "\tmov.u64 %cyc_end, %clock64;",
            "\tmov.u32 %cyc_thread, %tid.x;",
            "\tmov.u32 %cyc_warp, %ctaid.x;",
            "\tmov.u32 %cyc_sm, %ntid.x;",
            "\tmad.lo.s32 %cyc_warp, %cyc_warp, %cyc_sm, %cyc_thread;",
            "\tshr.u32 %cyc_warp, %cyc_warp, 5;",
            "\tmov.u32 %cyc_sm, %smid;",
            "\tld.param.u64 %cyc_clocks, [cyc_clocks];",
            "\tmad.wide.u32 %cyc_clocks, %cyc_warp, 24, %cyc_clocks;",
            "\tst.global.u64 [%cyc_clocks], %cyc_start;",
            "\tst.global.u64 [%cyc_clocks+8], %cyc_end;",
            "\tst.global.u32 [%cyc_clocks+16], %cyc_sm;",
        ]
        above = []
        for line in lines[last_register + 1 : first]:
            above.append(line)
            if found := re.match(r"ld\.param\.[usb]64\s+(%\w+),", statement(line)):
                above.append(f"\tadd.s64 {found[1]}, {found[1]}, %cyc_block;")
        before = ["\tbar.sync 0;", "\tmov.u64 %cyc_start, %clock64;"]
        body = still(lines[first:last])
        whole = head + above + before + body + around + lines[last + 1 :]
        name = os.path.basename(path)[:-4]
        yield f"{name}.{place}", Loop(name, whole, parameters, int(threads[1]), smem)


def every(paths):
    for path in paths:
        yield from of_file(path)
