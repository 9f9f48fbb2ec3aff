"""What ptxas rejects: its own messages, exit 2."""

import re
import tempfile
from pathlib import Path

from .tools import Inputs, Tally


def messages(log, path):
    """[(line of the file or None, message)] of a failed ptxas run."""
    found = []
    for text in log.splitlines():
        # ptxas k.ptx, line 12; error   : Unknown symbol 'x'     ptxas fatal   : Ptx assembly aborted due to errors
        # ptxas <macro util>, line 8; error   : Illegal modifier '.volatile' for instruction 'mov'
        if m := re.match(r"ptxas (?:(.*), line (\d+); *)?(error|fatal) *: *(.*)$", text):
            if "aborted due to errors" not in m[4]:
                found.append((int(m[2]) if m[1] == str(path) else None, m[4].strip()))
    return found


def compare(args, tools):
    tally, inputs = Tally("errors"), Inputs(args, (".ptx",))
    with tempfile.TemporaryDirectory() as scratch:
        out, clean = Path(scratch) / "out.cubin", Path(scratch) / "clean.ptx"
        for path in inputs.files:
            arch = inputs.arch(path)
            oracle, ours = tools.ptxas_once(path, arch, out), tools.ours_on_ptx([], path, arch)
            if ours.crashed():
                tally.differ("crash", path, f"exit {ours.code}: {ours.err.decode(errors='replace')[:200]}")
                continue
            accepted, judged = oracle.code == 0, path
            if not accepted:
                # a byte-order mark, CR LF, a trailing NUL (NVRTC's PTX has one) and accents in comments are to be forgiven
                data = path.read_bytes()
                text = data.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").rstrip(b"\0")
                text = re.sub(rb"//[^\n]*", lambda m: re.sub(rb"[\x80-\xff]", b" ", m[0]), text)
                if text != data:
                    clean.write_bytes(text)
                    oracle, judged = tools.ptxas(clean, arch, out), clean
                    accepted = oracle.code == 0
            if accepted:
                tally.check("accepted", path, "exit", 0, ours.code)
                continue
            tally.check("rejected", path, "exit", 2, ours.code)
            text = path.read_bytes()
            if not text.strip() or b"\0" in text.rstrip(b"\0"):
                continue  # no text at all: refused before ptxas is asked
            said = ours.err.decode(errors="replace") + ours.out.decode(errors="replace")
            for line, message in messages((oracle.err + oracle.out).decode(errors="replace"), judged):
                message = message.replace(str(judged), str(path))
                if message not in said:
                    tally.differ("message", path, f"line {line}: {message!r} is not in {said[:200]!r}")
                elif line is not None and not re.search(rf"\b{line}\b", said):
                    tally.differ("message", path, f"line {line} of {message!r} is not told")
                else:
                    tally.same("message")
    return tally.finish(len(inputs.files))
