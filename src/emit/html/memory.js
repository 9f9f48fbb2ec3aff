/* Maps of shared and tensor memory: a strip of regions, and a row for each of them. */

const DIRECTIONS = { writes: "writes", reads: "reads", both: "reads and writes" };

/** Lines as links, a few of them. */
function lineLinks(lines) {
  const shown = lines.slice(0, 4).map((line) => `<a href="#L${line}" data-line="${line}">${line}</a>`).join(", ");
  return lines.length > 4 ? `${shown}, …` : shown;
}

function usersText(uses) {
  return uses.map((use) => {
    const who = use.role === null ? "" : `${escapeText(use.role)} `;
    return `<span class="use">${who}${DIRECTIONS[use.direction]} <code>${escapeText(use.how)}</code> ${lineLinks(use.ptx_lines)}</span>`;
  }).join(" ");
}

function regionSize(region) {
  if (region.kind === "ring") return `${region.count}${region.complete ? "" : " or more"} stages × ${thousands(region.stride_bytes)} B`;
  if (region.kind === "mbarriers") return `${region.count} mbarrier${region.count === 1 ? "" : "s"}`;
  if (region.bytes === null) return "size not known";
  return `${region.exact ? "" : "up to "}${thousands(region.bytes)} B`;
}

/** One bar: parts have from, size, kind, count, row and text; what lies on something else is drawn over its lower half. */
function memoryStrip(total, parts, end) {
  const percent = (n) => `${(100 * n / total).toFixed(3)}%`;
  let reach = 0;
  const bars = parts.map((part) => {
    const over = part.from < reach ? " over" : "";
    if (part.kind !== "room") reach = Math.max(reach, part.from + part.size);
    const stages = part.kind === "ring" && part.count > 1 ? `;--stage:${(100 / part.count).toFixed(4)}%` : "";
    return `<i class="${part.kind}${over}" data-region="${part.row}" title="${escapeText(part.text)}" style="left:${percent(part.from)};width:${percent(part.size)}${stages}"></i>`;
  });
  return `<div class="strip">${bars.join("")}</div><div class="scale"><span>0</span><span>${end}</span></div>`;
}

function memoryRows(rows) {
  return `<table class="regions">${rows.map((row) => `<tr data-region="${row.row}"><td><i class="key ${row.kind}"></i>${row.place}</td><td>${row.size}</td><td>${row.users}</td></tr>`).join("")}</table>`;
}

function unknownText(unknown) {
  if (!unknown.length) return "";
  const lines = [...new Set(unknown.map((access) => access.ptx_line))];
  return `<p>${unknown.length} access${unknown.length === 1 ? "" : "es"} at places that the launch or memory decides: ${lineLinks(lines)}</p>`;
}

/** Dynamic shared memory lies behind the static variables, which lie one after the other. */
function sharedMap(shared, facts) {
  const starts = new Map();
  let next = 0;
  for (const region of shared.regions.filter((region) => !region.dynamic)) {
    if (!starts.has(region.variable)) starts.set(region.variable, next);
    next = Math.max(next, starts.get(region.variable) + region.offset + (region.bytes ?? 16));
  }
  const fixed = Math.max(shared.static_bytes, next);
  const place = (region) => (region.dynamic ? fixed : starts.get(region.variable)) + region.offset;
  const name = (region) => `${region.variable ?? "?"}+${thousands(region.offset)}`;
  const asked = facts.occupancy && (facts.occupancy.smem_dynamic_bytes || facts.occupancy.smem_dynamic_least_bytes) || 0;
  const ends = shared.regions.map((region) => place(region) + (region.bytes ?? 16));
  const total = Math.max(1, fixed + Math.max(asked, shared.dynamic_least_bytes || 0), ...ends);
  const rows = shared.regions.map((region, i) => ({
    row: `s${i}`, kind: region.kind, place: escapeText(name(region)), size: regionSize(region), users: usersText(region.uses),
  }));
  const parts = shared.regions.map((region, i) => ({
    from: place(region), size: region.bytes ?? 16, kind: region.kind, count: region.count, row: `s${i}`, text: `${name(region)}: ${regionSize(region)}`,
  }));
  const free = (shared.untouched || []).filter((left) => left.bytes > 0);
  const untouched = free.length ? `<p class="bad">Nothing touches ${free.map((left) => `${thousands(left.bytes)} B at ${escapeText(left.variable)}+${thousands(left.offset)}`).join(", ")}.</p>` : "";
  const room = facts.smem_most ? ` of ${thousands(facts.smem_most)} B that a block can have` : "";
  return `<h3>Shared memory</h3>${memoryStrip(total, parts, `${thousands(total)} B${room}`)}${memoryRows(rows)}${untouched}${unknownText(shared.unknown)}`;
}

function tensorMap(tensor) {
  const width = (region) => region.columns ?? 1;
  const name = (region) => (region.columns === null ? `from column ${region.column}` : `columns ${region.column} to ${region.column + region.columns - 1}`);
  const rows = tensor.regions.map((region, i) => ({
    row: `t${i}`, kind: "buffer", place: name(region), size: region.columns === null ? "" : `${region.columns} columns`, users: usersText(region.uses),
  }));
  const parts = tensor.regions.map((region, i) => ({ from: region.column, size: width(region), kind: "buffer", count: 1, row: `t${i}`, text: name(region) }));
  const allocated = tensor.allocated === null ? "an unknown number" : tensor.allocated;
  const lines = lineLinks(tensor.allocations.map((allocation) => allocation.ptx_line));
  const strip = memoryStrip(512, [{ from: 0, size: tensor.allocated || 0, kind: "room", count: 1, row: "", text: `${allocated} allocated` }, ...parts], "512 columns of the SM");
  return `<h3>Tensor memory</h3>${strip}<p>${allocated} columns allocated ${lines}</p>${memoryRows(rows)}${unknownText(tensor.unknown)}`;
}

/** The maps of a kernel, and how many groups are under way. */
function showMemory(kernel) {
  const maps = kernel.facts.memory, box = $("memory-box");
  const shared = maps && maps.shared && maps.shared.regions.length ? maps.shared : null;
  const tensor = maps && maps.tensor;
  box.hidden = !shared && !tensor;
  $("memory").replaceChildren();
  if (box.hidden) return;
  const least = shared && shared.dynamic_least_bytes;
  const parts = [];
  if (shared && shared.static_bytes) parts.push(`${thousands(shared.static_bytes)} B of static variables`);
  if (least) parts.push(`at least ${thousands(least)} B of dynamic shared memory`);
  if (tensor && tensor.allocated !== null) parts.push(`${tensor.allocated} columns of tensor memory`);
  box.querySelector("summary").innerHTML = `<b>Memory</b> ${parts.join(", ") || "who touches which bytes"}`;
  const groups = maps.groups.map((group) => `${escapeText(group.kind)}: ${group.most === null ? "groups without a bound" : `at most ${group.most} group${group.most === 1 ? "" : "s"} in flight`}`);
  $("memory").innerHTML = `${shared ? sharedMap(shared, kernel.facts) : ""}${tensor ? tensorMap(tensor) : ""}${groups.length ? `<p>${groups.join("; ")}</p>` : ""}`;
}

/** What is pointed at lights up in the strip and in its row; a line's number leads to the line. */
function listenToMemory() {
  const light = (event) => {
    const at = event.type === "mouseover" && event.target.closest("[data-region]");
    for (const part of $("memory").querySelectorAll("[data-region]")) part.classList.toggle("lit", Boolean(at) && at.dataset.region !== "" && part.dataset.region === at.dataset.region);
  };
  $("memory").addEventListener("mouseover", light);
  $("memory").addEventListener("mouseout", light);
  $("memory").addEventListener("click", (event) => {
    const go = event.target.closest("[data-line]");
    if (!go) return;
    event.preventDefault();
    select({ pane: "ptx", row: Number(go.dataset.line) - 1 }, { centre: true });
  });
  $("memory-box").addEventListener("toggle", () => { layout(); redraw(); });
}
