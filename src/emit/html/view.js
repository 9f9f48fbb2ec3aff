// The panes of a kernel: PTX, SASS and source side by side, linked, with what is known at the cursor beside them.

const panes = {};
const state = { kernel: null, code: null, active: "ptx", selected: null, hover: null, wanted: "", matches: null, control: false, role: null, file: 0, marks: new Set(["loop"]), shown: { ptx: true, sass: true, source: true, side: true } };
let curve;

/** The instructions that belong to a row of a pane. */
function instructionsOf(place) {
  const { code } = state;
  if (!place || !code) return [];
  if (place.pane === "sass") return [place.row];
  if (place.pane === "ptx") return code.byLine.get(place.row + 1) || [];
  const line = panes.source.lines[place.row];
  return (line && code.bySource && code.bySource.get(line.key)) || [];
}

/** What is lit in each pane for a place. */
function counterparts(place) {
  const { code } = state;
  const sass = instructionsOf(place);
  const lit = { sass: new Set(sass), ptx: new Set(), source: new Set(), list: sass };
  for (const at of sass) {
    if (code.line[at]) lit.ptx.add(code.line[at] - 1);
    if (code.source && code.source[at]) lit.source.add(code.source[at]);
  }
  return lit;
}

function rowClass(pane, row, key = row) {
  let names = "r";
  const { selected, lit, hoverLit } = state;
  if (selected && selected.pane === pane && selected.row === row) names += " sel";
  else if (lit && lit[pane].has(key)) names += " link";
  else if (hoverLit && hoverLit[pane].has(key)) names += " hov";
  return names;
}

function liveCell(live, bound) {
  const top = state.code.top;
  const hot = bound > 0 && live >= bound * 0.95;
  return `<span class="g${hot ? " hot" : ""}" style="--w:${Math.round((live / top) * 100)}%">${live}</span>`;
}

const boundAt = (code, at) => {
  const region = code.budget.of[at];
  return region >= 0 && code.budget.regions[region].registers > 0 ? code.budget.regions[region].registers : code.registers;
};

const badge = (mark) => `<span class="m" style="--k:var(${KINDS[mark.kind].colour})">${escapeText(markWords(mark))}</span>`;

/** What stands beside a line of source: how many spills it became, and whether most registers are live there. */
function lineMarks(list) {
  const { code } = state;
  const spills = list.filter((at) => (code.marksAt.get(at) || []).some((mark) => mark.kind.startsWith("spill"))).length;
  const found = new Set(list.flatMap((at) => (code.marksAt.get(at) || []).filter((mark) => mark.kind === "finding").map((mark) => mark.value.split(":")[0])));
  const badges = [];
  if (code.raw.peak !== null && list.includes(code.raw.peak)) badges.push(badge({ kind: "peak" }));
  if (spills) badges.push(`<span class="m" style="--k:var(--spill)">${plural(spills, "spill")}</span>`);
  for (const code of found) badges.push(badge({ kind: "finding", value: code }));
  return badges.join("");
}

const namesOf = {
  ptx: (row) => { const list = state.code.byLine.get(row + 1); return rowClass("ptx", row) + (list ? "" : " nil") + (outOfRole(list) ? " out" : ""); },
  sass: (row) => rowClass("sass", row) + (outOfRole([row]) ? " out" : ""),
  source: (row) => { const { key } = panes.source.lines[row], list = state.code.bySource.get(key); return rowClass("source", row, key) + (list ? "" : " nil") + (outOfRole(list) ? " out" : ""); },
};

function ptxRow(row) {
  const { code } = state;
  const list = code.byLine.get(row + 1);
  const live = code.gpr ? (list ? liveCell(code.lineLive.get(row + 1), code.registers) : '<span class="g"></span>') : "";
  const cycles = code.raw.cycle ? `<span class="u">${list ? (cyclesOf(code, list) ?? "?") : ""}</span>` : "";
  const waits = code.raw.cycle && list ? list.map((at) => waitText(code, at)).filter(Boolean) : [];
  const marks = code.findings.get(row + 1), told = [...multipliedAt(row + 1), ...waits];
  return `<div class="${namesOf.ptx(row)}" data-i="${row}"${told.length ? ` title="${escapeText(told.join("\n"))}"` : ""}><span class="gut"><b style="width:${panes.ptx.digits}ch">${row + 1}</b>${live}<span class="n">${timesText(code, ownOf(code, list))}</span>${cycles}</span><span class="t">${ptxHtml(code.ptx[row], state.wanted)}</span>${marks ? marks.map(badge).join("") : ""}</div>`;
}

// Cycles from which on a wait stands out.
const LONG_WAIT = 8;

const outOfRole = (list) => state.role !== null && (!list || list.every((at) => state.code.budget.of[at] !== state.role));

function sassRow(row) {
  const { code } = state;
  const live = code.gpr ? `${liveCell(code.gpr[row], boundAt(code, row))}<span class="u x">${code.ugpr[row]}</span><span class="u x">${code.pred[row]}</span>` : "";
  const depth = code.depth && code.raw.loops.length ? `<span class="lp">${code.depth[row] ? "▏".repeat(Math.min(3, code.depth[row])) : ""}</span>` : "";
  const waits = waitText(code, row);
  const time = code.raw.cycle ? (code.raw.cycle[row] < 0 ? '<span class="u y">?</span><span class="u">?</span>' : `<span class="u y">${code.raw.cycle[row]}</span><span class="u${code.raw.waited[row] >= LONG_WAIT ? " long" : ""}">${code.raw.waited[row]}</span>`) : "";
  const control = state.control ? `<span class="c">${controlText(code.raw.control[row])}</span>` : "";
  const marks = (code.marksAt.get(row) || []).map(badge).join("");
  // Where there is no line at all, no row needs to say so.
  const alone = code.own[row] || !code.line[row] ? "" : '<span class="m quiet">no line</span>';
  return `<div class="${namesOf.sass(row)}" data-i="${row}"${waits ? ` title="${escapeText(waits)}"` : ""}><span class="gut"><b style="width:${panes.sass.digits}ch">${hex(row * 16)}</b>${live}${depth}${time}</span>${control}<span class="t">${sassText(row)}</span>${marks}${alone}</div>`;
}

function sassText(row) {
  const html = sassHtml(state.code.asm[row], state.wanted);
  const target = state.code.target.get(row);
  if (target === undefined || state.wanted) return html;
  return html.replace(/(0x[0-9a-f]+)(?!.*0x)/, `<a data-go="${target}">$1</a>`);
}

function sourceRow(row) {
  const line = panes.source.lines[row];
  if (!line.number) return `<div class="r gap"><span class="gut"><b style="width:${panes.source.digits}ch">⋯</b></span></div>`;
  const { code } = state, list = code.bySource.get(line.key);
  const live = code.gpr ? (list ? liveCell(code.sourceLive.get(line.key), code.registers) : '<span class="g"></span>') : "";
  return `<div class="${namesOf.source(row)}" data-i="${row}"><span class="gut"><b style="width:${panes.source.digits}ch">${line.number}</b>${live}<span class="n">${timesText(code, list)}</span></span><span class="t">${sourceHtml(line.text, state.wanted)}</span>${list ? lineMarks(list) : ""}</div>`;
}

function makePane(name, title, html) {
  const pane = document.createElement("section");
  pane.className = `pane ${name}`;
  pane.innerHTML = `<h2>${title}<small></small></h2><div class="r heads" aria-hidden="true"></div><div class="list code"></div>`;
  $("panes").append(pane);
  const list = new RowList(pane.querySelector(".list"), {
    html, names: namesOf[name], label: title,
    onPick: (row, event) => {
      const go = event.target.closest("[data-go]");
      if (go) select({ pane: "sass", row: Number(go.dataset.go) }, { centre: true });
      else select({ pane: name, row });
    },
    onHover: (row) => hover(row === null ? null : { pane: name, row }),
  });
  list.box.addEventListener("focus", () => activate(name));
  panes[name] = { pane, list, ruler: new Ruler(pane, list), small: pane.querySelector("small"), digits: 6, lines: [] };
}

function makePanes() {
  makePane("ptx", "PTX", ptxRow);
  makePane("sass", "SASS", sassRow);
  makePane("source", "Source", sourceRow);
  const side = document.createElement("section");
  side.className = "pane side";
  side.innerHTML = '<div class="tabs" role="tablist"><button role="tab" data-tab="cursor" aria-selected="true">At the cursor</button><button role="tab" data-tab="marks" aria-selected="false">Marks</button></div><div class="scroll" id="cursor"></div><div id="marks" hidden style="display:flex;flex-direction:column;flex:1;min-height:0"><div class="kinds"></div><div class="list"></div></div>';
  $("panes").append(side);
  panes.side = { pane: side };
  panes.marks = new RowList(side.querySelector("#marks .list"), { html: markRow, label: "Marks", onPick: (row) => goToMark(state.code.listed[row]) });
  side.querySelector(".tabs").addEventListener("click", (event) => event.target.dataset.tab && showTab(event.target.dataset.tab));
  side.addEventListener("click", (event) => {
    const line = event.target.closest("[data-line]"), at = event.target.closest("[data-at]"), kind = event.target.closest("[data-kind]");
    if (line) select({ pane: "ptx", row: Number(line.dataset.line) - 1 }, { centre: true });
    else if (at) select({ pane: "sass", row: Number(at.dataset.at) }, { centre: true });
    else if (kind) {
      const name = kind.dataset.kind;
      if (state.marks.has(name)) state.marks.delete(name); else state.marks.add(name);
      listMarks();
    }
  });
  curve = new Curve($("curve"), $("curve-tip"), { onPick: (at) => select({ pane: "sass", row: at }, { centre: true }) });
}

function showTab(name) {
  for (const tab of panes.side.pane.querySelectorAll("[data-tab]")) tab.setAttribute("aria-selected", String(tab.dataset.tab === name));
  $("cursor").hidden = name !== "cursor";
  $("marks").hidden = name !== "marks";
  if (name === "marks") panes.marks.later();
}

function markRow(row) {
  const mark = state.code.listed[row];
  const where = mark.line ? `L${mark.line}` : "";
  return `<div class="r mk" data-i="${row}" style="--k:var(${KINDS[mark.kind].colour})"><i></i><em style="width:5ch">${mark.at === null ? "" : hex(mark.at * 16)}</em><em style="width:6ch">${where}</em><span>${escapeText(markWords(mark))}</span></div>`;
}

const goToMark = (mark) => mark && select(mark.at === null ? { pane: "ptx", row: mark.line - 1 } : { pane: "sass", row: mark.at }, { centre: true });

/** The marks of the kinds asked for. */
function listMarks() {
  const { code } = state;
  const counts = {};
  for (const mark of code.marks) counts[mark.kind] = (counts[mark.kind] || 0) + 1;
  code.listed = code.marks.filter((mark) => !state.marks.has(mark.kind));
  $("marks").querySelector(".kinds").innerHTML = Object.keys(KINDS).filter((kind) => counts[kind]).map((kind) => `<button class="chip" data-kind="${kind}" aria-pressed="${!state.marks.has(kind)}" style="--k:var(${KINDS[kind].colour})">${KINDS[kind].name} ${thousands(counts[kind])}</button>`).join("") || "<p>No spills, barriers or findings.</p>";
  panes.marks.set(code.listed.length);
}

function activate(name) {
  state.active = name;
  for (const key of ["ptx", "sass", "source"]) panes[key].pane.classList.toggle("active", key === name);
}

function redraw() {
  for (const name of ["ptx", "sass", "source"]) panes[name].list.later();
}

function hover(place) {
  state.hoverLit = place ? counterparts(place) : null;
  restyle();
}

function restyle() {
  for (const name of ["ptx", "sass", "source"]) panes[name].list.restyle();
}

/** Selects a row: lights its counterparts, brings the first of them into sight, says what is known there. */
function select(place, { centre = false, quiet = false } = {}) {
  const { code } = state;
  if (!code || !place) return;
  const count = panes[place.pane].list.count;
  if (!count) return;
  place.row = Math.max(0, Math.min(count - 1, place.row));
  state.selected = place;
  state.lit = counterparts(place);
  activate(place.pane);
  panes[place.pane].list.show(place.row, { centre });
  if (place.pane !== "sass" && state.lit.list.length) panes.sass.list.show(state.lit.list[0]);
  if (place.pane !== "ptx" && state.lit.ptx.size) panes.ptx.list.show(Math.min(...state.lit.ptx));
  if (place.pane !== "source" && state.lit.source.size) showSource([...state.lit.source][0]);
  const at = place.pane === "sass" ? place.row : state.lit.list.length ? state.lit.list[0] : null;
  curve.select(at, state.lit.list);
  rulers();
  restyle();
  showCursor(at);
  if (!quiet) remember();
}

/** What the columns are. */
function showHeads() {
  const { code } = state;
  const live = code.gpr ? '<span class="g" title="the most live vector registers of its instructions">R</span>' : "";
  const head = (name, html) => { panes[name].pane.querySelector(".heads").innerHTML = `<span class="gut">${html}</span>`; };
  head("ptx", `<b style="width:${panes.ptx.digits}ch">line</b>${live}<span class="n" title="instructions made of it, padding not counted">SASS</span>${code.raw.cycle ? '<span class="u" title="cycles that its instructions take one warp alone, each once: an estimate">cyc</span>' : ""}`);
  const counts = code.gpr ? '<span class="g" title="live vector registers">R</span><span class="u x" title="live uniform registers">UR</span><span class="u x" title="live predicates">P</span>' : "";
  const depth = code.depth && code.raw.loops.length ? '<span class="lp" title="loop depth"></span>' : "";
  const time = code.raw.cycle ? '<span class="u y" title="the cycle of its turn, or of its way outside of loops, in which it issues with one warp alone: an estimate">cyc</span><span class="u" title="cycles since the instruction before it">+</span>' : "";
  head("sass", `<b style="width:${panes.sass.digits}ch">pc</b>${counts}${depth}${time}`);
  if (state.control) panes.sass.pane.querySelector(".heads").insertAdjacentHTML("beforeend", '<span class="t">waits : read : write : yield : stall</span>');
  head("source", `<b style="width:${panes.source.digits}ch">line</b>${live}<span class="n" title="instructions made of it, padding not counted">SASS</span>`);
}

function rulers() {
  const { code, lit } = state;
  const spills = code.marks.filter((mark) => mark.kind.startsWith("spill"));
  const peak = code.raw.peak;
  panes.sass.ruler.set([
    { rows: spills.map((mark) => mark.at), colour: "--spill" },
    { rows: peak === null ? [] : [peak], colour: "--hot", wide: true },
    { rows: lit ? lit.list : [], colour: "--accent", wide: true },
  ]);
  panes.ptx.ruler.set([
    { rows: [...new Set(spills.map((mark) => mark.line - 1))].sort((a, b) => a - b), colour: "--spill" },
    { rows: peak === null ? [] : [code.line[peak] - 1], colour: "--hot", wide: true },
    { rows: lit ? [...lit.ptx].sort((a, b) => a - b) : [], colour: "--accent", wide: true },
  ]);
  const keys = lit ? lit.source : new Set();
  panes.source.ruler.set([{ rows: panes.source.lines.flatMap((line, i) => (keys.has(line.key) ? [i] : [])), colour: "--accent", wide: true }]);
}

/** The operands of a line of PTX, a list of registers as an array. */
function operandsOf(text) {
  const operands = [];
  let depth = 0, last = "";
  for (const c of text.replace(/^\s*(@!?\S+\s+)?\S+/, "").replace(/;.*/, "")) {
    if ("{[(".includes(c)) depth += 1;
    if ("}])".includes(c)) depth -= 1;
    if (c === "," && !depth) { operands.push(last.trim()); last = ""; } else last += c;
  }
  operands.push(last.trim());
  return operands.map((operand) => (operand.startsWith("{") ? operand.slice(1, -1).split(",").map((name) => name.trim()) : [operand]));
}

/** What a line of PTX multiplies, a sentence each. */
const multipliedAt = (line) => (state.code.raw.multiplied[line] || []).map((number) => state.code.raw.sentences[number]);

/** What a line of PTX multiplies, and which elements its registers hold. */
function matricesAt(line) {
  const { raw, ptx } = state.code, told = multipliedAt(line);
  const layout = raw.layouts[raw.layout_of[line]];
  let html = told.length ? `<h3>Matrices at line ${line}</h3>${told.map((text) => `<p>${escapeText(text)}</p>`).join("")}` : "";
  if (!layout) return html;
  const operands = operandsOf(ptx[line - 1] || "");
  const held = layout.operands.map(([title, operand, first, elements]) => {
    const names = (operands[operand] || []).slice(first);
    const rows = elements.map((text, i) => `<tr><td class="mono">${escapeText(names[i] || `#${first + i}`)}</td><td class="mono">${escapeText(text)}</td></tr>`);
    return `<details${layout.operands.length > 4 ? "" : " open"}><summary>${escapeText(title)}</summary><table><colgroup><col style="width:6em"><col></colgroup>${rows.join("")}</table></details>`;
  });
  html += `<h3>Elements that registers hold at line ${line}</h3><p>${escapeText(layout.letters)}</p>${held.join("")}`;
  return html;
}

/** What is known at an instruction. */
function showCursor(at) {
  const { code, selected } = state;
  if (at === null) {
    const line = selected.pane === "ptx" ? selected.row + 1 : null;
    $("cursor").innerHTML = `<p>${line ? `Line ${line} became no instruction of its own.` : "No instruction was made of this line."}</p>${line ? matricesAt(line) : ""}`;
    return;
  }
  const link = (line) => (line ? `<a data-line="${line}">line ${line}</a>` : "no line");
  const facts = [["pc", `<span class="mono">${hex(at * 16)}</span>`], ["PTX", code.own[at] || !code.line[at] ? link(code.own[at]) : `no line; stands by ${link(code.line[at])}`]];
  if (code.source && code.source[at]) facts.push(["source", escapeText(sourceName(code.source[at]))]);
  if (code.gpr) facts.push(["live", `${code.gpr[at]} GPR, ${code.ugpr[at]} UGPR, ${code.pred[at]} P, ${code.upred[at]} UP`]);
  if (code.depth && code.depth[at]) facts.push(["loop depth", code.depth[at]]);
  const region = code.budget.of[at];
  if (region >= 0) facts.push(["budget", budgetName(code, region, true)]);
  facts.push(["control", `<span class="mono">${controlText(code.raw.control[at])}</span><br>${controlWords(code.raw.control[at])}`]);
  if (code.raw.cycle && code.raw.cycle[at] >= 0) facts.push(["issues", `in cycle ${code.raw.cycle[at]} of ${code.depth && code.depth[at] ? "its turn of the loop" : "its way"}, one warp alone (estimate)`]);
  if (waitText(code, at)) facts.push(["waits", escapeText(waitText(code, at))]);
  for (const mark of code.marksAt.get(at) || []) facts.push(["mark", escapeText(markWords(mark))]);
  const others = selected.pane !== "sass" && counted(code, state.lit.list) > 1 ? ` <span style="color:var(--faint)">first of ${counted(code, state.lit.list)}</span>` : "";
  const head = `<h3>Instruction${others}</h3><div class="asm t">${sassHtml(code.asm[at], "")}</div><dl>${facts.map(([name, value]) => `<dt>${name}</dt><dd>${value}</dd>`).join("")}</dl>`;
  const values = liveSet(code, at);
  let live = "";
  if (values === null) live = code.gpr ? "" : `<h3>Live set</h3><p>Not known for ${escapeText(code.kernel.unit.arch || "this architecture")}.</p>`;
  else {
    const rows = values.map((value) => {
      // What a line is called by is told only where no other line may have filled the registers; accumulators are the matrix instruction's, whoever zeroed them.
      const known = value.line && (!value.others || value.matrix) && code.raw.names[value.line];
      // A vector register that a line of predicates fills is a temporary of it, not the predicate.
      const names = known ? known.split(" ").filter((name) => !/^%p\d*$/.test(name)) : value.opcode ? [value.opcode] : [];
      const from = value.definition === null ? "start" : `<a data-at="${value.definition}">${value.line ? `L${value.line}` : hex(value.definition * 16)}</a>${value.others ? " +" : ""}`;
      const last = value.last === null ? "" : `<a data-at="${value.last}">${code.line[value.last] ? `L${code.line[value.last]}` : hex(value.last * 16)}</a>`;
      return `<tr><td class="mono">${value.registers.length}</td><td class="mono">${names.length ? `${escapeText(runsOf(names))}<br>` : ""}<span style="color:var(--faint)">${registerNames(value.registers)}</span></td><td>${from}</td><td>${last}</td></tr>`;
    });
    const total = values.reduce((sum, value) => sum + value.registers.length, 0);
    live = `<h3>Live here: ${plural(total, "register")} in ${plural(values.length, "value")}</h3><table><colgroup><col style="width:2.9em"><col><col style="width:5.2em"><col style="width:4.6em"></colgroup><tr><th>#</th><th>value, registers</th><th>made at</th><th>last use</th></tr>${rows.join("")}</table>`;
  }
  const line = selected.pane === "ptx" ? selected.row + 1 : code.own[at];
  $("cursor").innerHTML = head + (line ? matricesAt(line) : "") + live;
}

const budgetName = (code, region, long = false) => {
  const { registers, setAt } = code.budget.regions[region];
  const line = setAt >= 0 ? code.line[setAt] : 0;
  const role = line && state.kernel.facts.roles.find((role) => role.line === line);
  const where = line ? ` since line ${line}` : "";
  if (role && registers > 0) return `${role.name}${role.warps ? `, ${plural(role.warps, "warp")}` : ""}: ${registers} registers${long ? where : ""}`;
  return registers > 0 ? `${registers} registers${where}` : registers === -2 ? "as launched" : "differs by path";
};

const sourceName = (key) => {
  const file = Math.floor(key / 4194304);
  return `${state.kernel.unit.files[file] || "?"}:${key % 4194304}`;
};
