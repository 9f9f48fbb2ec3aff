"""Compiles a set of kernels, launches each in a process of its own and records what came of it.

A record is one JSON line a kernel: name, family, change, sha256 of the PTX, outcome (`runs`, `hangs`, `fails(what)`), seconds from the launch
to its end. Records are appended as they come, so that a run that is cut short goes on where it ended; what hung in company is launched once
more alone, with a longer limit, and the record then says so (`"alone": true`).
"""
import concurrent.futures
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time

START_LIMIT = 60  # seconds until a process has its context; many start at once


def head(path):
    with open(path, encoding="utf-8") as file:
        text = file.read().split(".version")[0]
    return dict(re.findall(r"^// (arch|threads|cluster|n|family|change): *(.*)$", text, re.M))


def digest(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def compile_one(ptxas, path, cubin):
    """None, or what ptxas said."""
    made = subprocess.run([ptxas, "-arch", "sm_90a", path, "-o", cubin], capture_output=True, text=True)
    return None if made.returncode == 0 else (made.stderr + made.stdout).strip()


def attempt(command, expected, limit):
    """(outcome, seconds) of one launch in a process of its own: the limit counts from the launch, not from the process's start."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    timer = threading.Timer(START_LIMIT, process.kill)
    timer.start()
    said, launched = [], None
    for line in process.stdout:
        said.append(line.strip())
        if line.startswith("launched"):
            launched = time.monotonic()
            timer.cancel()
            timer = threading.Timer(limit, process.kill)
            timer.start()
        elif line.startswith("ended"):
            break
    seconds = time.monotonic() - launched if launched else 0.0
    timer.cancel()
    last = said[-1] if said else ""
    if last.startswith("ended"):
        process.stdout.close()
        process.wait()
        return ("runs" if last == f"ended {expected}" else f"fails(count {last[len('ended '):]} of {expected})"), seconds
    code = process.wait()
    if launched and code == -9:
        return "hangs", seconds
    error = re.search(r"CUDA_ERROR_\w+", " ".join(said))
    return f"fails({error[0] if error else last[-120:] or f'exit {code}'})", seconds


class Record:
    """The file of records, appended to from several threads."""

    def __init__(self, path):
        self.path, self.lock, self.known = path, threading.Lock(), {}
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                for line in file:
                    if line.endswith("\n"):
                        entry = json.loads(line)
                        self.known[entry["name"]] = entry

    def add(self, entry):
        with self.lock:
            self.known[entry["name"]] = entry
            with open(self.path, "a", encoding="utf-8") as file:
                file.write(json.dumps(entry) + "\n")

    def close(self):
        """One line a kernel, by name: what was found alone replaces what was found in company."""
        text = "".join(json.dumps(self.known[name]) + "\n" for name in sorted(self.known))
        with open(self.path + ".new", "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(self.path + ".new", self.path)


def run_set(folder, record_path, ptxas, launcher, jobs, limit, alone_limit, launches, minutes):
    """launcher(cubin, threads, blocks, n, launches): the command of one launch. Returns an exit status."""
    paths = sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".ptx"))
    record = Record(record_path)
    until = time.monotonic() + 60 * minutes if minutes else float("inf")

    def name_of(path):
        return os.path.basename(path)[: -len(".ptx")]

    def entry(path, outcome, seconds, alone):
        case = head(path)
        return {"name": name_of(path), "family": case.get("family"), "change": case.get("change"), "sha256": digest(path),
                "outcome": outcome, "seconds": round(seconds, 3), "alone": alone}

    def known(path):
        """The record of this very text: a file of the same name from another set is none."""
        found = record.known.get(name_of(path))
        return found if found and found["sha256"] == digest(path) else None

    with tempfile.TemporaryDirectory() as work:
        def cubin(path):
            return os.path.join(work, name_of(path) + ".cubin")

        def launch(path, limit, alone):
            if time.monotonic() > until:
                return
            case = head(path)
            threads, blocks = int(case["threads"]), int(case["cluster"])
            command = launcher(cubin(path), threads, blocks, int(case.get("n", 0)), launches)
            record.add(entry(path, *attempt(command, threads * blocks * launches, limit), alone))

        todo = [path for path in paths if not known(path)]
        needed = todo + [path for path in paths if known(path) and known(path)["outcome"] == "hangs" and not known(path)["alone"]]
        started = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for path, said in zip(needed, pool.map(lambda path: compile_one(ptxas, path, cubin(path)), needed)):
                if said:
                    print(f"{path}: {said}", file=sys.stderr)
                    record.add(entry(path, "fails(ptxas)", 0, True))
        todo = [path for path in todo if not known(path)]
        print(f"{len(needed)} of {len(paths)} compiled in {time.monotonic() - started:.0f} s, {len(todo)} to launch", flush=True)
        started = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            list(pool.map(lambda path: launch(path, limit, jobs == 1), todo))
        again = [path for path in paths if known(path) and known(path)["outcome"] == "hangs" and not known(path)["alone"]]
        print(f"launched in {time.monotonic() - started:.0f} s; {len(again)} hung and are launched again alone", flush=True)
        for path in again:
            launch(path, alone_limit, True)
    record.close()
    left = [path for path in paths if not known(path)]
    unsure = sum(1 for path in paths if known(path) and known(path)["outcome"] == "hangs" and not known(path)["alone"])
    table = {}
    for found in filter(None, map(known, paths)):
        kind = ("right" if found["change"] == "none" else "changed", found["outcome"].split("(")[0])
        table.setdefault(found["family"], {}).setdefault(kind, 0)
        table[found["family"]][kind] += 1
    for family in sorted(table):
        print(f"{family:8} " + "  ".join(f"{of} {outcome}: {count}" for (of, outcome), count in sorted(table[family].items())))
    for path in paths:
        found = known(path)
        if found and found["change"] == "none" and found["outcome"] != "runs":
            print(f"RIGHT BUT {found['outcome']}: {found['name']}")
    print(f"{len(left)} not launched, {unsure} hangs not confirmed" + (": run again with the same record" if left or unsure else ""))
    return 2 if left else 0
