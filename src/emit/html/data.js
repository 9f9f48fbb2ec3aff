// The model: facts of every unit from the index, code and texts decoded when they are first looked at.
"use strict";

const $ = (id) => document.getElementById(id);
const parse = (id) => { const node = $(id); return node ? JSON.parse(node.textContent) : null; };
const INDEX = parse("index");

const escapeText = (text) => String(text).replace(/[&<>"']/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" })[c]);
const hex = (number) => number.toString(16).padStart(4, "0");
const thousands = (number) => number.toLocaleString("en-US");
const plural = (number, what) => `${thousands(number)} ${what}${number === 1 ? "" : "s"}`;

// Every function of every unit, in one list.
const KERNELS = [];
INDEX.units.forEach((unit, u) => unit.kernels.forEach((facts) => KERNELS.push({ facts, unit, u })));

const texts = new Map();
/** The lines of a text of a unit: PTX (`kind` "ptx") or one of its source files ("src"). */
function linesOf(kind, unit, number) {
  const id = `${kind}-${unit}-${number}`;
  if (!texts.has(id)) {
    const found = parse(id);
    texts.set(id, found === null ? null : found.split("\n"));
  }
  return texts.get(id);
}

const codes = new Map();
/** The code of a kernel, decoded: arrays by instruction, links by line. */
function codeOf(kernel) {
  if (kernel.facts.code === null) return null;
  const id = `code-${kernel.u}-${kernel.facts.code}`;
  if (!codes.has(id)) codes.set(id, decode(parse(id), kernel));
  return codes.get(id);
}

function decode(raw, kernel) {
  const asm = raw.asm === "" ? [] : raw.asm.split("\n");
  const count = asm.length;
  const code = { raw, asm, count, unit: kernel.u, kernel };
  code.ptx = raw.text === null ? [] : linesOf("ptx", kernel.u, raw.text) || [];
  code.own = Int32Array.from(raw.line);
  // The line each instruction stands under: its own, or its neighbour's.
  code.line = code.own.slice();
  for (let i = 0; i < raw.near.length; i += 2) code.line[raw.near[i]] = raw.near[i + 1];
  code.byLine = group(code.line, count);
  code.fills = new Uint8Array(count);
  for (let i = 0; i < raw.padding.length; i += 2) code.fills.fill(1, raw.padding[i], raw.padding[i] + raw.padding[i + 1]);
  code.gpr = raw.gpr && Int16Array.from(raw.gpr);
  code.ugpr = raw.ugpr; code.pred = raw.pred; code.upred = raw.upred;
  code.depth = raw.depth && spread(raw.depth, count);
  // Who waits for whom, by instruction: which words, and the producer.
  code.waits = new Map();
  for (let i = 0; i < raw.waits.length; i += 3) code.waits.set(raw.waits[i], [raw.waits[i + 1], raw.waits[i + 2]]);
  code.registers = raw.registers || 0;
  code.top = Math.max(code.registers, code.gpr ? code.gpr.reduce((a, b) => Math.max(a, b), 0) : 0, 8);
  if (raw.file) {
    // A source line is one number: which file, which line.
    code.source = Float64Array.from(raw.file, (file, i) => (file < 0 ? 0 : file * 4194304 + raw.at[i]));
    code.bySource = group(code.source, count);
  }
  code.budget = spreadBudget(raw.budget, count);
  code.top = code.budget.regions.reduce((most, region) => Math.max(most, region.registers), code.top);
  // What a copy, a refill or a matrix instruction puts into a register another line made; 0 where it is not known which.
  code.makers = new Map();
  for (let i = 0; i < raw.makers.length; i += 2) code.makers.set(raw.makers[i], raw.makers[i + 1]);
  code.target = new Map();
  for (let i = 0; i < raw.target.length; i += 2) code.target.set(raw.target[i], raw.target[i + 1]);
  code.marks = raw.marks.map(([at, kind, value]) => ({ at, kind, value, line: code.line[at] }));
  for (const advisory of kernel.unit.advisories) {
    if (advisory.ptx_line === null || (advisory.kernel !== null && advisory.kernel !== kernel.facts.name)) continue;
    const at = (code.byLine.get(advisory.ptx_line) || [null])[0];
    if (at === null && advisory.kernel === null) continue;
    code.marks.push({ at, kind: "finding", value: `${advisory.code || advisory.severity}: ${advisory.message}`, line: advisory.ptx_line });
  }
  for (const issue of kernel.facts.issues) {
    const at = issue.ptx_line === null ? null : (code.byLine.get(issue.ptx_line) || [null])[0];
    code.marks.push({ at, kind: "finding", value: `${issue.code}: ${issue.message} (${issue.confidence})`, line: issue.ptx_line });
  }
  code.marks.sort((a, b) => (a.at ?? 1e9) - (b.at ?? 1e9));
  code.marksAt = new Map();
  for (const mark of code.marks) if (mark.at !== null) (code.marksAt.get(mark.at) || code.marksAt.set(mark.at, []).get(mark.at)).push(mark);
  code.lineLive = new Map();
  if (code.gpr) for (const [line, list] of code.byLine) code.lineLive.set(line, list.reduce((most, i) => Math.max(most, code.gpr[i]), 0));
  code.sourceLive = new Map();
  if (code.gpr && code.bySource) for (const [key, list] of code.bySource) code.sourceLive.set(key, list.reduce((most, i) => Math.max(most, code.gpr[i]), 0));
  return code;
}

/** Instruction lists by key; 0 is no key. */
function group(keys, count) {
  const lists = new Map();
  for (let i = 0; i < count; i++) {
    const key = keys[i];
    if (!key) continue;
    const list = lists.get(key);
    if (list) list.push(i); else lists.set(key, [i]);
  }
  return lists;
}

/** [value, how often, …] as an array. */
function spread(runs, count) {
  const all = new Uint8Array(count);
  let at = 0;
  for (let i = 0; i < runs.length; i += 2) { all.fill(runs[i], at, at + runs[i + 1]); at += runs[i + 1]; }
  return all;
}

/** [from, registers or -1, set at or -1, …]: the regions between setmaxnregs, and each instruction's. */
function spreadBudget(runs, count) {
  const regions = [], known = new Map(), of = new Int16Array(count).fill(-1);
  // Before the first setmaxnreg the warp has what it was launched with.
  if (runs.length && runs[0] > 0) runs = [0, -2, -1, ...runs];
  for (let i = 0; i < runs.length; i += 3) {
    const from = runs[i], to = i + 3 < runs.length ? runs[i + 3] : count;
    const key = `${runs[i + 1]}/${runs[i + 2]}`;
    if (!known.has(key)) { known.set(key, regions.length); regions.push({ registers: runs[i + 1], setAt: runs[i + 2], size: 0 }); }
    const region = known.get(key);
    of.fill(region, from, to);
    regions[region].size += to - from;
  }
  return { regions, of };
}

/** Who holds the vector registers at an instruction, by the line that filled them, or where it has none by the opcode; largest first. */
function liveSet(code, at) {
  const spans = code.raw.values;
  if (!spans) return null;
  const groups = new Map();
  for (let i = 0, register = 0, from = 0; i < spans.length; i += 5) {
    if (spans[i]) { register += spans[i]; from = 0; }
    from += spans[i + 1];
    if (from > at || from + spans[i + 2] < at) continue;
    const definition = spans[i + 3], last = spans[i + 4];
    const value = { register: register - 1, definition: definition < 0 ? null : definition >> 1, others: definition > 0 && (definition & 1) === 1, last: last < 0 ? null : last };
    const line = value.definition === null ? 0 : code.makers.get(value.definition) ?? code.line[value.definition];
    const opcode = line || value.definition === null ? "" : opcodeOf(code.asm[value.definition]);
    const key = line || opcode;
    const group = groups.get(key) || groups.set(key, { line, opcode, registers: [], definition: value.definition, others: false, last: null, matrix: /GMMA/.test(code.asm[value.definition] || "") }).get(key);
    group.registers.push(value.register);
    group.others = group.others || value.others;
    if (value.last !== null && (group.last === null || value.last > group.last)) group.last = value.last;
  }
  return [...groups.values()].sort((a, b) => b.registers.length - a.registers.length || a.line - b.line);
}

/** How many of some instructions can be run: what fills up the section is not counted. */
const counted = (code, list) => list.reduce((count, at) => count + 1 - code.fills[at], 0);
const timesText = (code, list) => { const count = list ? counted(code, list) : 0; return count ? `${count}×` : ""; };
/** Instructions whose own line the line table has: those that only stand near it are none of it. */
const ownOf = (code, list) => list && list.filter((at) => code.own[at] > 0);

/** Cycles that instructions take one warp alone, each once; null where one of them is not known. */
const cyclesOf = (code, list) => (list.some((at) => code.raw.cycle[at] < 0) ? null : list.reduce((sum, at) => sum + code.raw.waited[at], 0));

/** What an instruction waits for, in words; empty where it does not wait. */
function waitText(code, at) {
  const found = code.waits.get(at);
  if (!found) return "";
  const [words, producer] = found;
  const line = producer >= 0 ? code.line[producer] : 0;
  const name = `${line ? `line ${line} (pc ` : "pc "}${hex(producer * 16)}${line ? ")" : ""}`;
  const said = producer < 0 ? code.raw.wait_words[words][1] : code.raw.wait_words[words][0].replace("{}", name);
  return `${plural(code.raw.waited[at], "cycle")}: ${said}`;
}

/** `@!P0 LDG.E R2, …` is `LDG.E`. */
const opcodeOf = (text) => text.replace(/^@\S+ /, "").split(" ", 1)[0];

/** R4 R5 R6 R9 as "R4–R6, R9"; names that do not end in a number stay as they are. */
function runsOf(names) {
  const runs = [];
  for (const name of names) {
    const [, stem, digits] = /^(.*?)(\d*)$/.exec(name);
    const last = runs[runs.length - 1], number = digits === "" ? null : Number(digits);
    if (last && number !== null && last.stem === stem && last.to === number - 1) last.to = number; else runs.push({ stem, from: number, to: number });
  }
  return runs.map(({ stem, from, to }) => (from === null ? stem : from === to ? `${stem}${from}` : `${stem}${from}–${stem}${to}`)).join(", ");
}
const registerNames = (registers) => runsOf([...registers].sort((a, b) => a - b).map((register) => `R${register}`));

const KINDS = {
  peak: { name: "Peak", colour: "--hot" },
  spill_store: { name: "Spill stores", colour: "--spill" },
  spill_refill: { name: "Refills", colour: "--spill" },
  spill: { name: "Spills", colour: "--spill" },
  setmaxnreg: { name: "setmaxnreg", colour: "--budget" },
  barrier: { name: "Barriers", colour: "--barrier" },
  loop: { name: "Loops", colour: "--loop" },
  finding: { name: "Findings", colour: "--finding" },
  unknown: { name: "Unknown words", colour: "--faint" },
};

function markWords(mark) {
  switch (mark.kind) {
    case "peak": return "peak";
    case "spill_store": return `spill store${mark.value ? ` ${mark.value} B` : ""}`;
    case "spill_refill": return `refill${mark.value ? ` ${mark.value} B` : ""}`;
    case "setmaxnreg": return `setmaxnreg${mark.value ? ` ${mark.value}` : ""}`;
    case "barrier": return mark.value === "named" ? "barrier" : mark.value === "cluster" ? "cluster barrier" : mark.value;
    case "loop": return mark.value > 1 ? `loop, depth ${mark.value}` : "loop";
    case "unknown": return "unknown word";
    case "finding": return mark.value;
    default: return mark.kind;
  }
}
