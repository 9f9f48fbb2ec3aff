// The page as a whole: choosing a kernel, searching, links, keys, themes, print.

const figure = (what, much, more = "", options = {}) => `<div class="figure${options.bad ? " bad" : ""}${options.at !== undefined ? " go" : ""}${options.long ? " long" : ""}"${options.at !== undefined ? ` data-at="${options.at}"` : ""}><span class="what">${what}</span><span class="much">${much}</span> <span class="more">${more}</span></div>`;
const bytes = (number) => `${thousands(number)} B`;
const shownName = (facts) => facts.demangled || facts.name;

const WIDE = 1500;
// Below this one pane is enough.
const NARROW = 820;

function spillText(facts) {
  const { spill_store_bytes: stores, spill_load_bytes: loads } = facts.resources;
  if (stores === null && loads === null) return facts.spill_sites === null ? null : facts.spill_sites ? plural(facts.spill_sites, "site") : "none";
  return stores || loads ? `${bytes(stores || 0)} out, ${bytes(loads || 0)} in` : "none";
}
const hasSpills = (facts) => !!(facts.resources.spill_store_bytes || facts.resources.spill_load_bytes || facts.spill_sites);

// One scale for all small pictures, so that they can be compared.
const MOST = KERNELS.reduce((most, { facts }) => Math.max(most, facts.resources.registers || 0, facts.pressure ? facts.pressure.gpr.peak : 0), 1);

/** A pressure profile as a small picture. */
function sparkline(profile) {
  if (!profile || !profile.length) return "";
  const most = MOST;
  const points = profile.map((value, i) => `L${i} ${20 - (value / most) * 20}L${i + 1} ${20 - (value / most) * 20}`).join("");
  return `<svg viewBox="0 0 ${profile.length} 20" preserveAspectRatio="none" aria-hidden="true"><path d="M0 20${points}L${profile.length} 20Z"/></svg>`;
}

// Instructions that can run: without what only fills the section up.
function instructionCount(facts) {
  return facts.instructions.total === null ? null : facts.instructions.total - (facts.instructions.padding || 0);
}

// What only the launch knows, by its name in the report: in words, and the flag that states it.
const LAUNCH_FACTS = {
  threads: ["block size", "--threads"],
  smem_dynamic: ["dynamic shared memory", "--smem-dynamic"],
};

// Blocks an SM holds; the most, where the launch decides.
function blocksText(occupancy) {
  if (occupancy.blocks_per_sm !== null) return String(occupancy.blocks_per_sm);
  return occupancy.by_smem_dynamic.length ? `≤ ${occupancy.by_smem_dynamic[0].blocks_per_sm}` : "?";
}

// The next step of occupancy: what ptxas makes of it where it was asked, arithmetic otherwise.
function stepText(step, tried) {
  if (tried && tried.compiles === false) return `ptxas cannot compile it with the ${step.registers} registers that ${step.blocks_per_sm} would need`;
  const fit = `${(tried && tried.blocks_per_sm) || step.blocks_per_sm} would fit at ${step.registers} registers`;
  if (!tried || tried.compiles === null) return fit;
  const spilt = tried.spill_store_bytes === null ? null : tried.spill_store_bytes + (tried.spill_load_bytes || 0);
  const spills = spilt === null ? "" : spilt === 0 ? " and spills nothing" : ` and then spills ${bytes(spilt)}`;
  return `${fit}: ptxas compiles it with ${tried.registers}${spills}${tried.message ? `, but ${tried.message}` : ""}`;
}

// What the number of blocks means, or what is missing for it.
function occupancyText(occupancy) {
  if (occupancy.by_smem_dynamic.length) {
    // The number stands before it: one range needs it no second time.
    const ranges = occupancy.by_smem_dynamic;
    const parts = ranges.map((range) => `${ranges.length > 1 ? `${range.blocks_per_sm} ` : ""}up to ${bytes(range.smem_dynamic_bytes)}`);
    const shown = parts.length > 4 ? [...parts.slice(0, 2), "…", parts[parts.length - 1]] : parts;
    const least = occupancy.smem_dynamic_least_bytes ? `; it touches at least ${bytes(occupancy.smem_dynamic_least_bytes)}` : "";
    return `${shown.join(", ")} of dynamic shared memory, which the launch sets: give --smem-dynamic${least}`;
  }
  if (occupancy.missing.length) {
    const facts = occupancy.missing.map((fact) => LAUNCH_FACTS[fact]);
    return `the launch sets ${facts.map((fact) => fact[0]).join(" and ")}: give ${facts.map((fact) => fact[1]).join(" and ")}`;
  }
  const next = occupancy.next_step ? `; ${stepText(occupancy.next_step, occupancy.next_step_tried)}` : "";
  return `${occupancy.warps_per_sm} of ${occupancy.max_warps_per_sm} warps, limited by ${occupancy.limiters.join(" and ")}${next}`;
}

function showFigures(kernel) {
  const { facts } = kernel, { resources } = facts, code = codeOf(kernel);
  const list = [];
  if (resources.registers !== null) list.push(figure("Registers", resources.registers, facts.register_cap ? `of at most ${facts.register_cap.registers}` : ""));
  const peak = facts.pressure && facts.pressure.gpr;
  if (peak) list.push(figure(facts.pressure.exact ? "Live at most" : "Live at most, not exact", peak.peak, peak.ptx_line ? `at line ${peak.ptx_line}` : "", peak.pc !== null ? { at: peak.pc / 16 } : {}));
  const spills = spillText(facts);
  const first = code && code.marks.find((mark) => mark.kind.startsWith("spill"));
  if (spills) list.push(figure("Spills", spills === "none" ? "none" : spills.split(", ")[0], spills.split(", ")[1] || "", { bad: hasSpills(facts), ...(first ? { at: first.at } : {}) }));
  const occupancy = facts.occupancy;
  if (occupancy) {
    list.push(figure("Blocks per SM", blocksText(occupancy), escapeText(occupancyText(occupancy)), { long: true }));
  }
  if (resources.smem_bytes) list.push(figure("Static shared", bytes(resources.smem_bytes)));
  if (resources.barriers) list.push(figure("Barriers", resources.barriers));
  if (facts.instructions.total !== null) list.push(figure("Instructions", thousands(instructionCount(facts)), facts.instructions.unknown ? `${thousands(facts.instructions.unknown)} unknown` : ""));
  $("figures").innerHTML = list.join("");
}

/** Barriers executed: a picture that was drawn before. What goes wrong is shown at once. */
function showTimeline(kernel) {
  const box = $("timeline-box");
  const drawn = parse(`timeline-${kernel.u}-${kernel.facts.code}`);
  box.hidden = !drawn;
  $("timeline").replaceChildren();
  if (!drawn) return;
  box.querySelector("summary").innerHTML = `<b>Timeline</b> <span${drawn.bad ? ' class="bad"' : ""}>${escapeText(drawn.verdict)}</span>`;
  box.open = drawn.bad;
  const picture = new DOMParser().parseFromString(drawn.svg, "text/html").body;
  $("timeline").append(...picture.childNodes);
}

function showLegend(code) {
  const has = (kind) => code.marks.some((mark) => mark.kind.startsWith(kind));
  const items = [];
  if (code.gpr) items.push(["", "--live", "live vector registers"], ["", "--hot", "within 5 % of the bound"], ["line", "--ink", "allocation"]);
  if (code.gpr && code.raw.steps.length) items.push(["dots", "--faint", "occupancy steps"]);
  if (code.budget.regions.length) items.push(["line", "--budget", "setmaxnreg budget"]);
  if (code.raw.loops.length) items.push(["", "--rule", "loops"]);
  if (has("spill")) items.push(["", "--spill", "spills"]);
  if (has("barrier")) items.push(["", "--barrier", "barriers"]);
  if (has("finding")) items.push(["", "--finding", "findings"]);
  $("legend").innerHTML = items.map(([shape, colour, text]) => `<span class="${shape}" style="--c:var(${colour})">${text}</span>`).join("");
}

function showRoles(code) {
  state.role = null;
  code.role = null;
  const { regions } = code.budget;
  const chips = regions.map((_, i) => [i, budgetName(code, i)]);
  $("bar").classList.toggle("roles", chips.length > 0);
  $("roles").innerHTML = chips.length ? [["", "All warps"], ...chips].map(([role, name]) => `<button class="chip" data-role="${role}" aria-pressed="${role === ""}">${escapeText(name)}</button>`).join("") : "";
}

/** Shows a kernel; `place` is where to start. */
function open(number, place) {
  const kernel = KERNELS[number];
  if (!kernel) return;
  $("overview").hidden = true;
  $("kernel").hidden = false;
  state.kernel = kernel;
  state.number = number;
  const { facts } = kernel;
  document.title = `${facts.short} · ptxinspect`;
  const within = facts.within ? ` in ${facts.within}` : "";
  $("title").innerHTML = `<h1 title="${escapeText(facts.name)}">${escapeText(facts.short)}</h1>${facts.short === shownName(facts) ? "" : `<details class="whole"><summary>whole name</summary><code>${escapeText(shownName(facts))}</code></details>`}<span class="kind">${facts.kind === "entry" ? "kernel" : "function"}${escapeText(within)}</span>`;
  showUnit(kernel.unit);
  markKernel();
  const code = (state.code = codeOf(kernel));
  showFindings(kernel);
  showFigures(kernel);
  for (const id of ["curve-box", "bar", "panes"]) $(id).hidden = !code;
  showMemory(kernel);
  if (!code) $("timeline-box").hidden = $("memory-box").hidden = true;
  if (!code) return;
  code.findings = new Map();
  for (const mark of code.marks) if (mark.kind === "finding" && mark.line) (code.findings.get(mark.line) || code.findings.set(mark.line, []).get(mark.line)).push({ ...mark, value: mark.value.split(":")[0] });
  state.selected = state.lit = state.hoverLit = null;
  const longest = (lines) => lines.reduce((most, line) => Math.max(most, line.length), 0);
  panes.ptx.digits = Math.max(5, String(code.ptx.length).length + 2);
  panes.sass.digits = Math.max(6, hex(code.count * 16).length + 2);
  panes.ptx.list.set(code.ptx.length, longest(code.ptx));
  panes.sass.list.set(code.count, longest(code.asm) + (state.control ? 24 : 0));
  panes.ptx.small.textContent = code.ptx.length ? plural(code.ptx.length, "line") : "not in the cubin";
  const padding = facts.instructions.total === code.count ? facts.instructions.padding || 0 : 0;
  const own = facts.instructions.total === null ? code.count : Math.min(facts.instructions.total, code.count);
  const others = code.count - own;
  panes.sass.small.textContent = plural(own - padding, "instruction") + (padding ? ` and ${thousands(padding)} of padding` : "") + (others ? `, ${thousands(others)} more in the functions that it calls` : "");
  showTimeline(kernel);
  openSource(code);
  showRoles(code);
  showLegend(code);
  listMarks();
  curve.set(code);
  layout();
  const start = facts.within ? code.raw.parts.find(([name]) => name === facts.name) : null;
  const first = code.raw.peak !== null && code.count ? { pane: "sass", row: code.raw.peak } : facts.ptx_line ? { pane: "ptx", row: facts.ptx_line - 1 } : { pane: "sass", row: 0 };
  select(place || (start ? { pane: "sass", row: start[1] } : first), { centre: true, quiet: !place });
  if (state.wanted) search(state.wanted);
}

/** Fills the source pane with the file that most of the code comes from. */
function openSource(code) {
  const sizes = new Map();
  if (code.bySource) for (const [key, list] of code.bySource) { const file = Math.floor(key / 4194304); sizes.set(file, (sizes.get(file) || 0) + counted(code, list)); }
  code.sourceFiles = [...sizes.keys()].sort((a, b) => sizes.get(b) - sizes.get(a));
  panes.source.lines = [];
  panes.source.file = undefined;
  if (code.sourceFiles.length) loadSource(code.sourceFiles[0]); else panes.source.list.set(0);
}

function loadSource(file) {
  if (panes.source.file === file) return;
  panes.source.file = file;
  // Numbers without text need no more room than they have digits.
  panes.source.pane.classList.toggle("bare", Boolean(state.kernel.unit.missing[file]));
  const { code } = state;
  const used = [...code.bySource.keys()].filter((key) => Math.floor(key / 4194304) === file).map((key) => key % 4194304).sort((a, b) => a - b);
  const text = state.kernel.unit.sources[file] ? linesOf("src", code.unit, file) : null;
  const lines = [];
  let last = 0;
  const push = (number, text) => {
    if (number > last + 1 && last) lines.push({ number: 0, key: 0, text: "" });
    lines.push({ number, key: file * 4194304 + number, text });
    last = number;
  };
  // Only the lines around code are in the page: "number<TAB>text".
  if (text) for (const line of text) { const tab = line.indexOf("\t"); push(Number(line.slice(0, tab)), line.slice(tab + 1)); }
  else for (const number of used) push(number, "");
  panes.source.lines = lines;
  panes.source.rowOf = new Map(lines.map((line, i) => [line.key, i]));
  panes.source.digits = Math.max(5, String(last).length + 2);
  panes.source.list.set(lines.length, lines.reduce((most, line) => Math.max(most, line.text.length), 0));
  const options = code.sourceFiles.map((other) => `<option value="${other}"${other === file ? " selected" : ""}>${escapeText(state.kernel.unit.files[other].split("/").pop())}</option>`).join("");
  panes.source.pane.querySelector("h2").innerHTML = `<span>Source</span><select aria-label="Source file" title="${escapeText(state.kernel.unit.files[file])}">${options}</select><small>${escapeText(state.kernel.unit.missing[file] || "")}</small>`;
}

function showSource(key) {
  loadSource(Math.floor(key / 4194304));
  const row = panes.source.rowOf.get(key);
  if (row !== undefined) panes.source.list.show(row);
}

function layout() {
  const { code, shown } = state;
  const has = { ptx: code.ptx.length > 0, sass: true, source: code.sourceFiles.length > 0, side: true };
  const titles = { ptx: "PTX", sass: "SASS", source: "Source", side: "Details" };
  showHeads();
  if (!Object.keys(titles).some((name) => has[name] && shown[name])) shown.sass = true;
  for (const name of Object.keys(titles)) panes[name].pane.hidden = !has[name] || !shown[name];
  $("pane-buttons").innerHTML = Object.keys(titles).filter((name) => has[name]).map((name) => `<button class="chip" data-pane="${name}" aria-pressed="${shown[name]}">${titles[name]}</button>`).join("") + `<button class="chip" data-pane="control" aria-pressed="${state.control}">Control</button>`;
}

function showUnit(unit) {
  const parts = [`<b>${escapeText(unit.input)}</b>`];
  if (unit.arch) parts.push(escapeText(unit.arch));
  if (MATRIX && MATRIX.units[INDEX.units.indexOf(unit)]) parts.push(escapeText(MATRIX.units[INDEX.units.indexOf(unit)]));
  else if (unit.ptxas) parts.push(`ptxas ${escapeText(unit.ptxas.version || "?")}`); else if (unit.made_by) parts.push(escapeText(unit.made_by));
  $("unit").innerHTML = parts.join("<i>·</i>");
}

/** What tells a kernel from others of its name: how a matrix built it, how a library's row says that it was made. */
function placed(i, u) {
  if (MATRIX) return MATRIX.units[u];
  const row = LIBRARY && LIBRARY.rows.find((row) => row.k === i);
  return row ? [row.arch, row.options].filter(Boolean).join(" · ") : "";
}

let kernelRows = [];
function listKernels() {
  const wanted = $("filter").value.trim().toLowerCase();
  kernelRows = KERNELS.map((_, i) => i).filter((i) => !wanted || `${KERNELS[i].facts.name} ${shownName(KERNELS[i].facts)}`.toLowerCase().includes(wanted));
  // A page of a thousand kernels has a thousand small rows: still quick, and the browser's own find sees them.
  const overview = `<div class="kernel-item" data-k="-1" role="option"><div class="facts">All kernels · ${plural(KERNELS.length, "function")}</div></div>`;
  $("kernel-list").innerHTML = overview + kernelRows.slice(0, 2000).map((i) => {
    const { facts, u } = KERNELS[i];
    const told = [];
    if (facts.resources.registers !== null) told.push(`${facts.resources.registers} regs`);
    if (facts.pressure) told.push(`${facts.pressure.gpr.peak} live`);
    if (facts.instructions.total !== null) told.push(`${thousands(instructionCount(facts))} inst`);
    const found = WORST.get(facts).count;
    // In front, where nothing is cut off.
    const bad = [found ? plural(found, "finding") : "", hasSpills(facts) ? "spills" : ""].filter(Boolean).map((text) => `<span class="bad">${text}</span>`);
    return `<div class="kernel-item" role="option" data-k="${i}" title="${escapeText(shownName(facts))}"><div class="name">${escapeText(facts.short)}</div>${placed(i, u) ? `<div class="facts placed">${escapeText(placed(i, u))}</div>` : ""}<div class="facts">${[...bad, ...told].join(" · ")}</div>${facts.pressure ? sparkline(facts.pressure.profile) : ""}</div>`;
  }).join("");
  markKernel();
}

function markKernel() {
  for (const item of $("kernel-list").children) item.setAttribute("aria-selected", String(Number(item.dataset.k) === ($("overview").hidden ? state.number : -1)));
}

// What nobody should miss of each kernel: how many findings, and how bad the worst of them is.
const WORST = new Map(KERNELS.map(({ facts, unit }) => {
  const own = unit.advisories.filter((advisory) => advisory.kernel !== null);
  const found = findingsOf({ facts, unit: { advisories: own } }).filter((finding) => finding.serious);
  return [facts, { count: found.length, rank: found.reduce((most, finding) => Math.max(most, finding.rank), -1) }];
}));
const spilt = (facts) => (facts.resources.spill_store_bytes || 0) + (facts.resources.spill_load_bytes || 0) + (facts.spill_sites || 0);
const worstFirst = (a, b) => WORST.get(b.facts).rank - WORST.get(a.facts).rank || spilt(b.facts) - spilt(a.facts);

// A device function has no launch.
const NONE = "–";
const unknown = (facts) => (facts.kind === "entry" ? "?" : NONE);

const COLUMNS = [
  ["Kernel", (facts) => shownName(facts).toLowerCase(), (facts) => escapeText(facts.short), "name"],
  ["Along the code", (facts) => (facts.pressure ? facts.pressure.gpr.peak : -1), (facts) => (facts.pressure ? sparkline(facts.pressure.profile) : ""), "curve"],
  ["Registers", (facts) => facts.resources.registers ?? -1, (facts) => facts.resources.registers ?? unknown(facts)],
  ["Live at most", (facts) => (facts.pressure ? facts.pressure.gpr.peak : -1), (facts) => (facts.pressure ? facts.pressure.gpr.peak : "?")],
  ["Findings", (facts) => WORST.get(facts).count, (facts) => WORST.get(facts).count || "none", (facts) => (WORST.get(facts).count ? "bad" : "")],
  ["Spilt", spilt, (facts) => escapeText(spillText(facts) ?? "?"), (facts) => (hasSpills(facts) ? "bad" : "")],
  ["Blocks/SM", (facts) => facts.occupancy?.blocks_per_sm ?? -1, (facts) => (facts.occupancy ? blocksText(facts.occupancy) : unknown(facts))],
  ["Shared", (facts) => facts.resources.smem_bytes ?? -1, (facts) => (facts.resources.smem_bytes === null ? unknown(facts) : bytes(facts.resources.smem_bytes))],
  ["Barriers", (facts) => facts.resources.barriers ?? -1, (facts) => facts.resources.barriers ?? unknown(facts)],
  ["Instructions", (facts) => instructionCount(facts) ?? -1, (facts) => (facts.instructions.total === null ? "?" : thousands(instructionCount(facts)))],
];

/** Why it is not known how many blocks an SM holds, and what to give. */
function launchNote(rows) {
  const open = rows.filter(({ facts }) => facts.occupancy && facts.occupancy.blocks_per_sm === null);
  const asked = new Set(open.flatMap(({ facts }) => facts.occupancy.missing));
  const missing = Object.keys(LAUNCH_FACTS).filter((fact) => asked.has(fact)).map((fact) => LAUNCH_FACTS[fact]);
  if (!missing.length) return "";
  return `<p class="sub">Blocks that an SM holds depend on the ${missing.map(([words]) => words).join(" and the ")}, which the launch sets: give ${missing.map(([, flag]) => flag).join(" and ")}.</p>`;
}

/** Every kernel with its figures. */
function showOverview() {
  if (LIBRARY) return showLibrary();
  if (MATRIX) return showMatrix();
  $("overview").hidden = false;
  $("kernel").hidden = true;
  document.title = "ptxinspect";
  markKernel();
  const sort = state.sort || [null, 1];
  $("overview").innerHTML = INDEX.units.map((unit, u) => {
    const rows = KERNELS.map((kernel, i) => ({ ...kernel, i })).filter((kernel) => kernel.u === u);
    if (sort[0] === null) rows.sort(worstFirst);
    else rows.sort((a, b) => { const [x, y] = [COLUMNS[sort[0]][1](a.facts), COLUMNS[sort[0]][1](b.facts)]; return (x < y ? -1 : x > y ? 1 : 0) * sort[1]; });
    const head = COLUMNS.map(([name, , , kind], c) => `<th data-c="${c}"${kind === "curve" ? ' class="curve"' : ""}${sort[0] === c ? ` aria-sort="${sort[1] > 0 ? "ascending" : "descending"}"` : ""}>${name}</th>`).join("");
    const cell = (text, kind) => `<td class="${kind}${text === "?" || text === NONE ? " unknown" : ""}">${text}</td>`;
    const cells = (facts) => COLUMNS.map(([, , text, kind]) => cell(text(facts), typeof kind === "function" ? kind(facts) : kind || "")).join("");
    const whole = unit.advisories.filter((advisory) => advisory.kernel === null).map((advisory) => findingBox(adviceOf(advisory), unit.input));
    const own = rows.flatMap(({ facts }) => findingsOf({ facts, unit: { advisories: unit.advisories.filter((advisory) => advisory.kernel !== null) } }).map((finding) => ({ finding, facts })));
    own.sort((a, b) => b.finding.serious - a.finding.serious || b.finding.rank - a.finding.rank);
    const findings = [...whole, ...own.map(({ finding, facts }) => findingBox(finding, facts.short))];
    const told = findings.slice(0, 4).join("") + (findings.length > 4 ? `<details class="more"><summary>${plural(findings.length - 4, "more finding")}</summary>${findings.slice(4, 200).join("")}</details>` : "");
    const error = unit.error ? `<div class="finding error"><b>${escapeText(unit.error.stage)}</b><span>${escapeText(unit.error.message)}</span></div>` : "";
    const by = unit.ptxas ? `, ptxas ${escapeText(unit.ptxas.version || "?")}` : unit.made_by ? `, made by ${escapeText(unit.made_by)}` : "";
    return `<h1>${escapeText(unit.input)}</h1><p class="sub">${escapeText(unit.arch || "")}${by}</p>${error}${told}<div class="scroll-x"><table><thead><tr>${head}</tr></thead><tbody>${rows.slice(0, 5000).map(({ facts, i }) => `<tr data-k="${i}" tabindex="0" title="${escapeText(shownName(facts))}">${cells(facts)}</tr>`).join("")}</tbody></table></div>${launchNote(rows)}<br>`;
  }).join("");
  if (INDEX.units.length) showUnit(INDEX.units[0]);
}

/** Finds every row that holds a text, in all panes. */
function search(text) {
  state.wanted = text.toLowerCase();
  const { code } = state;
  state.matches = null;
  if (state.wanted && code) {
    const rows = (lines) => lines.reduce((list, line, i) => { if (line.toLowerCase().includes(state.wanted)) list.push(i); return list; }, []);
    state.matches = { ptx: rows(code.ptx), sass: rows(code.asm), source: rows(panes.source.lines.map((line) => line.text)) };
  }
  const total = state.matches ? state.matches.ptx.length + state.matches.sass.length + state.matches.source.length : 0;
  $("found").textContent = state.matches ? (total ? `${thousands(state.matches.ptx.length)} PTX · ${thousands(state.matches.sass.length)} SASS${state.matches.source.length ? ` · ${thousands(state.matches.source.length)} source` : ""}` : "none") : "";
  redraw();
}

/** The next (1) or previous (-1) match, in the active pane where it has any; without a search, the next counterpart. */
function step(direction) {
  const { matches, selected, lit, active } = state;
  if (matches) {
    const pane = matches[active].length ? active : ["ptx", "sass", "source"].find((name) => matches[name].length);
    if (!pane) return;
    const from = selected && selected.pane === pane ? selected.row : direction > 0 ? -1 : Infinity;
    const list = matches[pane];
    const next = direction > 0 ? list.find((row) => row > from) ?? list[0] : [...list].reverse().find((row) => row < from) ?? list[list.length - 1];
    select({ pane, row: next }, { centre: true });
  } else if (lit && lit.list.length) {
    // The selection stays; the instructions it became pass by one after the other.
    state.nth = ((state.nthOf === selected ? state.nth : direction > 0 ? -1 : 0) + direction + lit.list.length) % lit.list.length;
    state.nthOf = selected;
    const at = lit.list[state.nth];
    panes.sass.list.show(at, { centre: true });
    curve.select(at, lit.list);
    showCursor(at);
  }
}

function stepMark(direction) {
  const { code, selected } = state;
  if (!code || !code.listed.length) return;
  const at = selected && selected.pane === "sass" ? selected.row : state.lit && state.lit.list.length ? state.lit.list[0] : direction > 0 ? -1 : Infinity;
  const list = code.listed.filter((mark) => mark.at !== null);
  goToMark(direction > 0 ? list.find((mark) => mark.at > at) || list[0] : [...list].reverse().find((mark) => mark.at < at) || list[list.length - 1]);
}

/** The address says where we are: #L412, #S1a0, with k3. in front for another kernel than the first. */
function remember() {
  const { selected, number } = state;
  if (!selected || selected.pane === "source") return;
  const place = selected.pane === "ptx" ? `L${selected.row + 1}` : `S${hex(selected.row * 16)}`;
  try { history.replaceState(null, "", `#${number ? `k${number}.` : ""}${place}`); } catch { /* in a notebook's cell it has no address */ }
}

function recall() {
  const match = /^#(?:k(\d+)\.?)?(?:L(\d+)|S([0-9a-f]+))?$/.exec(location.hash);
  if (!match || location.hash.length < 2) return false;
  const [, kernel, line, pc] = match;
  const place = line ? { pane: "ptx", row: Number(line) - 1 } : pc ? { pane: "sass", row: Math.floor(parseInt(pc, 16) / 16) } : null;
  let number = kernel === undefined ? 0 : Number(kernel);
  if (kernel === undefined && line) {
    // A line alone belongs to the kernel that starts last before it.
    KERNELS.forEach(({ facts }, i) => { if (facts.ptx_line && facts.ptx_line <= Number(line) && facts.ptx_line > (KERNELS[number].facts.ptx_line > Number(line) ? 0 : KERNELS[number].facts.ptx_line || 0)) number = i; });
  }
  if (!KERNELS[number]) return false;
  if (state.number === number && !$("kernel").hidden && place) select(place, { centre: true, quiet: true }); else open(number, place);
  return true;
}

function setTheme(name) {
  document.documentElement.dataset.theme = name;
  try { localStorage.setItem("ptxinspect-theme", name); } catch { /* a page from disk may have no storage */ }
  curve.later();
  if (state.code) rulers();
}

function toggle(pane) {
  if (pane === "control") {
    state.control = !state.control;
    if (state.code) panes.sass.list.set(state.code.count, 60 + (state.control ? 24 : 0));
  } else if (innerWidth < NARROW) for (const name of Object.keys(state.shown)) state.shown[name] = name === pane;
  else state.shown[pane] = !state.shown[pane];
  layout();
  redraw();
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = event.target.matches("input, select");
  if (event.key === "Escape" && typing) { event.target.blur(); panes[state.active].list.box.focus({ preventScroll: true }); return; }
  if (typing) {
    if (event.key === "Enter" && event.target.id === "search") { step(event.shiftKey ? -1 : 1); event.preventDefault(); }
    return;
  }
  const row = state.selected ? state.selected.row : 0;
  const move = (by) => state.selected && select({ pane: state.selected.pane, row: row + by });
  const visible = state.code ? Math.max(1, Math.floor(panes[state.active].list.box.clientHeight / ROW) - 2) : 1;
  const across = (by) => {
    const order = ["ptx", "sass", "source"].filter((name) => !panes[name].pane.hidden);
    const name = order[Math.max(0, Math.min(order.length - 1, order.indexOf(state.active) + by))];
    if (name === state.active || !state.lit) return;
    const rows = name === "sass" ? state.lit.list : name === "ptx" ? [...state.lit.ptx] : [...state.lit.source].map((key) => panes.source.rowOf.get(key)).filter((found) => found !== undefined);
    panes[name].list.box.focus({ preventScroll: true });
    select({ pane: name, row: rows.length ? rows[0] : Math.floor(panes[name].list.top()) + 2 });
  };
  const actions = {
    ArrowDown: () => move(1), j: () => move(1), ArrowUp: () => move(-1), k: () => move(-1),
    PageDown: () => move(visible), PageUp: () => move(-visible), Home: () => move(-Infinity), End: () => move(1e9),
    ArrowLeft: () => across(-1), h: () => across(-1), ArrowRight: () => across(1), l: () => across(1),
    n: () => step(1), p: () => step(-1), N: () => step(-1), "]": () => stepMark(1), "[": () => stepMark(-1),
    g: () => state.code && state.code.raw.peak !== null && select({ pane: "sass", row: state.code.raw.peak }, { centre: true }),
    "/": () => { $("search").focus(); $("search").select(); },
    b: () => { $("kernels").hidden = !$("kernels").hidden; },
    c: () => state.code && toggle("control"),
    w: () => { $("timeline-box").open = !$("timeline-box").open; },
    m: () => { $("memory-box").open = !$("memory-box").open; },
    t: () => setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"),
    "?": () => $("keys").showModal(),
  };
  const action = actions[event.key];
  if (!action || $("keys").open) return;
  event.preventDefault();
  action();
}

/** On paper there is no scrolling: the lines with code and what became of them, up to some thousands. */
function fillPrint() {
  const { code } = state;
  if (!code || $("kernel").hidden) { $("print").textContent = ""; return; }
  let left = 6000, html = "";
  for (const line of [...code.byLine.keys()].sort((a, b) => a - b)) {
    if (left <= 0) { html += '<div class="d">… and more; print fewer lines at a time, or use --format text</div>'; break; }
    html += `<div class="l"><b>${String(line).padStart(5)}</b>  ${escapeText(tidy(code.ptx[line - 1] || ""))}\n`;
    for (const at of code.byLine.get(line)) {
      left--;
      html += `<span class="s">       ${hex(at * 16)}${code.gpr ? String(code.gpr[at]).padStart(5) : ""}  ${escapeText(code.asm[at])}  ${(code.marksAt.get(at) || []).map((mark) => escapeText(markWords(mark))).join(", ")}</span>\n`;
    }
    html += "</div>";
  }
  $("print").innerHTML = html;
}

function start() {
  let theme = null;
  try { theme = localStorage.getItem("ptxinspect-theme"); } catch { /* as above */ }
  const dark = matchMedia("(prefers-color-scheme: dark)");
  document.documentElement.dataset.theme = theme || (dark.matches ? "dark" : "light");
  makePanes();
  if (innerWidth < NARROW) state.shown = { ptx: true, sass: false, source: false, side: false };
  dark.addEventListener("change", () => { document.documentElement.dataset.theme = dark.matches ? "dark" : "light"; curve.later(); if (state.code) rulers(); });
  // Beside a single kernel's panes a list of the functions it calls is worth its room on a wide screen only.
  const kernels = KERNELS.filter(({ facts }) => facts.kind === "entry").length;
  $("kernels").hidden = innerWidth < NARROW || KERNELS.length < 2 || (kernels === 1 && innerWidth < WIDE);
  listKernels();
  $("filter").addEventListener("input", listKernels);
  $("kernel-list").addEventListener("click", (event) => { const item = event.target.closest("[data-k]"); if (item) Number(item.dataset.k) < 0 ? showOverview() : open(Number(item.dataset.k)); });
  $("overview").addEventListener("click", (event) => {
    if (onLibraryClick(event) || onMatrixClick(event)) return;
    const head = event.target.closest("th"), row = event.target.closest("tr[data-k]");
    if (head) { const c = Number(head.dataset.c); state.sort = [c, state.sort && state.sort[0] === c ? -state.sort[1] : c === 0 ? 1 : -1]; showOverview(); } else if (row) open(Number(row.dataset.k));
  });
  $("overview").addEventListener("keydown", (event) => { if (event.key === "Enter" && !event.target.matches("input") && (onLibraryClick(event) || onMatrixClick(event))) return; const row = event.target.closest("tr[data-k]"); if (row && event.key === "Enter") open(Number(row.dataset.k)); });
  $("figures").addEventListener("click", (event) => { const go = event.target.closest("[data-at]"); if (go) select({ pane: "sass", row: Number(go.dataset.at) }, { centre: true }); });
  $("findings").addEventListener("click", (event) => { const go = event.target.closest("[data-line]"); if (go && state.code) select({ pane: "ptx", row: Number(go.dataset.line) - 1 }, { centre: true }); });
  $("findings").addEventListener("toggle", () => redraw(), true);
  $("roles").addEventListener("click", (event) => {
    const chip = event.target.closest("[data-role]");
    if (!chip) return;
    state.role = state.code.role = chip.dataset.role === "" ? null : Number(chip.dataset.role);
    for (const other of $("roles").children) other.setAttribute("aria-pressed", String(other === chip));
    redraw();
    curve.later();
  });
  $("timeline").addEventListener("click", (event) => { const go = event.target.closest("[data-line]"); if (go) select({ pane: "ptx", row: Number(go.dataset.line) - 1 }, { centre: true }); });
  $("timeline-box").addEventListener("toggle", () => { layout(); redraw(); });
  listenToMemory();
  $("pane-buttons").addEventListener("click", (event) => event.target.dataset.pane && toggle(event.target.dataset.pane));
  panes.source.pane.addEventListener("change", (event) => { loadSource(Number(event.target.value)); rulers(); });
  $("search").addEventListener("input", (event) => search(event.target.value));
  $("toggle-list").addEventListener("click", () => { $("kernels").hidden = !$("kernels").hidden; });
  $("theme").addEventListener("click", () => setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));
  $("help").addEventListener("click", () => $("keys").showModal());
  document.addEventListener("keydown", onKey);
  window.addEventListener("hashchange", recall);
  window.addEventListener("beforeprint", fillPrint);
  if (!recall()) {
    const first = KERNELS.findIndex((kernel) => kernel.facts.code !== null);
    // Of a whole library nobody wants the first kernel.
    if (LIBRARY || MATRIX || INDEX.view === "report" && KERNELS.length !== 1 || kernels > 8 || first < 0) showOverview(); else open(first);
  }
  document.documentElement.dataset.ready = "true";
}

start();
