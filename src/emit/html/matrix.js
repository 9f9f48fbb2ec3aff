// A matrix: all kernels at a glance, then each one's figures as pictures and as a table; a cell opens the kernel as it was built there.

const MATRIX = INDEX.matrix;
const KERNELS_AT_ONCE = 40, CELLS_AT_ONCE = 60, WIDEST_GRID = 64, LINE_COLOURS = 6;
const grid = { metric: 0, kernels: KERNELS_AT_ONCE, long: new Set() };

const valueText = (value) => (value === null ? "?" : thousands(value));
const placeText = (cell) => cell.label || "the only build";
const opensCell = (table, number) => ` data-cell="${table}.${number}"${MATRIX.kernels[table].cells[number].k === null ? "" : ' data-has-page=""'}`;

/** Numbers between two that are easy to read, three to five of them. */
function ticksOf(least, most) {
  const rough = Math.max((most - least) / 3, 1), power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((by) => by * power).find((by) => by >= rough);
  const from = Math.floor(least / step) * step, to = Math.max(Math.ceil(most / step) * step, from + step);
  return Array.from({ length: Math.round((to - from) / step) + 1 }, (_, i) => from + i * step);
}

/** One figure along the axis, a line for each combination of the rest. */
function chart(table, m) {
  const { axis, cells } = MATRIX.kernels[table];
  const value = (number) => (number === null ? null : cells[number].values[m]);
  const known = axis.lines.flatMap((line) => line.cells.map(value)).filter((found) => found !== null);
  if (!known.length) return "";
  const [least, most] = known.reduce(([low, high], found) => [Math.min(low, found), Math.max(high, found)], [Infinity, -Infinity]);
  const ticks = ticksOf(least, most), [low, high] = [ticks[0], ticks[ticks.length - 1]];
  const left = 14 + 7 * thousands(high).length, [wide, tall, top, bottom] = [420, 176, 26, 34];
  const numeric = axis.ticks.every((tick) => /^\d+$/.test(tick)) && axis.ticks.length > 1;
  const numbers = axis.ticks.map(Number), [first, last] = [Math.min(...numbers), Math.max(...numbers)];
  const share = (t) => (numeric && last > first ? (numbers[t] - first) / (last - first) : axis.ticks.length > 1 ? t / (axis.ticks.length - 1) : 0.5);
  const inset = numeric ? 6 : 22;
  const x = (t) => left + inset + share(t) * (wide - left - 2 * inset - 6);
  const y = (found) => top + (1 - (found - low) / (high - low)) * (tall - top - bottom);
  const room = Math.max(...axis.ticks.map((tick) => tick.length)) * 7 + 12;
  let reached = -Infinity;
  const labels = axis.ticks.map((tick, t) => {
    if (x(t) - reached < room) return "";
    reached = x(t);
    return `<text x="${x(t).toFixed(1)}" y="${tall - bottom + 15}" text-anchor="middle">${escapeText(tick)}</text>`;
  }).join("");
  const rows = ticks.map((tick) => `<line class="grid" x1="${left}" x2="${wide - 4}" y1="${y(tick).toFixed(1)}" y2="${y(tick).toFixed(1)}"/><text x="${left - 6}" y="${(y(tick) + 4).toFixed(1)}" text-anchor="end">${thousands(tick)}</text>`).join("");
  const lines = axis.lines.map((line, n) => {
    const points = line.cells.flatMap((number, t) => (value(number) === null ? [] : [{ number, x: x(t).toFixed(1), y: y(value(number)).toFixed(1) }]));
    const dots = points.map((point) => `<circle cx="${point.x}" cy="${point.y}" r="3.5"${opensCell(table, point.number)}><title>${escapeText(`${placeText(cells[point.number])}: ${valueText(value(point.number))}`)}</title></circle>`).join("");
    // Where lines cover one another, those below show at the edges.
    return `<g class="line l${n % LINE_COLOURS}"><polyline style="stroke-width:${1.6 + (axis.lines.length - 1 - n) * 1.4}" points="${points.map((point) => `${point.x},${point.y}`).join(" ")}"/>${dots}</g>`;
  }).join("");
  return `<svg class="chart" viewBox="0 0 ${wide} ${tall}" role="img" aria-label="${escapeText(`${MATRIX.metrics[m]} by ${axis.title}`)}"><text class="title" x="2" y="14">${escapeText(MATRIX.metrics[m])}</text>${rows}${labels}<text class="axis" x="${((left + wide) / 2).toFixed(1)}" y="${tall - 3}" text-anchor="middle">${escapeText(axis.title)}</text>${lines}</svg>`;
}

const isMoving = (cells, m) => new Set(cells.map((cell) => cell.values[m]).filter((value) => value !== null)).size > 1;

/** The pictures of a kernel: figures that are the same everywhere need none. */
function charts(table) {
  const { axis, cells } = MATRIX.kernels[table];
  if (!axis || axis.ticks.length < 2) return "";
  const drawn = MATRIX.metrics.map((_, m) => (isMoving(cells, m) ? chart(table, m) : "")).join("");
  const still = MATRIX.metrics.flatMap((name, m) => { const known = cells.find((cell) => cell.values[m] !== null); return known && !isMoving(cells, m) ? [`${name} ${valueText(known.values[m])}`] : []; });
  const legend = drawn && axis.lines.length > 1 ? `<p class="legend">${axis.lines.map((line, n) => `<span class="l${n % LINE_COLOURS}">${escapeText(line.label)}</span>`).join("")}</p>` : "";
  return `${legend}<div class="charts">${drawn}</div>${still.length ? `<p class="sub">The same in every build${cells.some((cell) => cell.lacks) ? " that there is" : ""}: ${escapeText(still.join(", "))}.</p>` : ""}`;
}

function cellTable(table) {
  const { cells } = MATRIX.kernels[table];
  const most = MATRIX.metrics.map((_, m) => cells.reduce((all, cell) => Math.max(all, cell.values[m] || 0), 1));
  const head = [...MATRIX.dimensions, ...MATRIX.metrics].map((name, c) => `<th${c < MATRIX.dimensions.length ? ' class="place"' : ""}>${escapeText(name)}</th>`).join("");
  const noted = cells.some((cell) => cell.note && !cell.lacks);
  const shown = grid.long.has(table) ? cells : cells.slice(0, CELLS_AT_ONCE);
  const rows = shown.map((cell, number) => {
    const place = cell.place.map((text) => `<td class="place">${escapeText(text)}</td>`).join("");
    // One sentence in place of a row of figures that there are not.
    if (cell.lacks) return `<tr${opensCell(table, number)} tabindex="0">${place}<td class="lacks" colspan="${MATRIX.metrics.length + (noted ? 1 : 0)}" title="${escapeText(cell.note || "")}"><b>${cell.lacks}</b>${cell.note ? `: ${escapeText(cell.note)}` : ""}</td></tr>`;
    const values = cell.values.map((value, m) => `<td class="bar${value === null ? " unknown" : ""}" style="--w:${(((value || 0) / most[m]) * 100).toFixed(1)}%">${valueText(value)}</td>`).join("");
    return `<tr${opensCell(table, number)} tabindex="0">${place}${values}${noted ? `<td class="note">${escapeText(cell.note || "")}</td>` : ""}</tr>`;
  }).join("");
  const more = shown.length < cells.length ? `<button data-long="${table}">show all ${plural(cells.length, "build")}</button>` : "";
  return `<div class="scroll-x"><table class="cells"><thead><tr>${head}${noted ? "<th></th>" : ""}</tr></thead><tbody>${rows}</tbody></table></div>${more}`;
}

/** Kernels down, builds across, one figure: where it is more than the least of its row it is the hotter the more. */
function glance() {
  const { kernels } = MATRIX, builds = kernels[0].cells;
  if (kernels.length < 2 || builds.length < 2 || builds.length > WIDEST_GRID || kernels.some(({ cells }) => cells.length !== builds.length)) return "";
  const head = builds.map((cell) => `<th>${cell.place.map(escapeText).join("<br>")}</th>`).join("");
  const rows = kernels.slice(0, grid.kernels).map(({ name, full, cells }, table) => {
    const known = cells.map((cell) => cell.values[grid.metric]).filter((value) => value !== null);
    const [least, most] = [Math.min(...known), Math.max(...known)];
    const boxes = cells.map((cell, number) => {
      const value = cell.values[grid.metric];
      const heat = value === null || most === least ? 0 : ((value - least) / (most - least)) * 100;
      const told = [placeText(cell), cell.lacks, cell.note].filter(Boolean).join(": ");
      return `<td class="heat${cell.lacks ? " lacks" : value === null ? " unknown" : ""}" style="--h:${heat.toFixed(0)}%"${opensCell(table, number)} title="${escapeText(told)}">${cell.lacks || valueText(value)}</td>`;
    }).join("");
    return `<tr><td class="name" title="${escapeText(full)}"><a data-table="${table}">${escapeText(name)}</a></td>${boxes}</tr>`;
  }).join("");
  const choice = MATRIX.metrics.map((name, m) => `<button class="chip" data-metric="${m}" aria-pressed="${m === grid.metric}">${escapeText(name)}</button>`).join("");
  return `<p class="table-tools">${choice}</p><div class="scroll-x"><table class="glance"><thead><tr><th>kernel<small>${MATRIX.dimensions.map(escapeText).join(", ")} →</small></th>${head}</tr></thead><tbody>${rows}</tbody></table></div>`;
}

function showMatrix() {
  $("overview").hidden = false;
  $("kernel").hidden = true;
  document.title = `${MATRIX.title} · ptxinspect`;
  markKernel();
  const failures = MATRIX.failures.map(([places, reason]) => `<div class="finding error"><b>cannot compile</b><span>${escapeText(places)}: ${escapeText(reason)}</span></div>`).join("");
  const bisections = MATRIX.bisections.map(([kernel, text]) => `<div class="finding info"><b>bisected</b><span>${escapeText(text)}<small class="mono">${escapeText(kernel)}</small></span></div>`).join("");
  const several = new Set(MATRIX.kernels.map((kernel) => kernel.input)).size > 1;
  const sections = MATRIX.kernels.slice(0, grid.kernels).map((kernel, table) => {
    const moves = kernel.cells.length < 8 || MATRIX.metrics.some((_, m) => isMoving(kernel.cells, m));
    const full = kernel.full === kernel.name ? "" : `<details class="whole"><summary>whole name</summary><code>${escapeText(kernel.full)}</code></details>`;
    const told = kernel.changes.length ? `<ul>${kernel.changes.map((text) => `<li>${escapeText(text)}</li>`).join("")}</ul>` : "";
    return `<section class="matrix-kernel" id="matrix-${table}"><h3 class="mono">${escapeText(kernel.name)}</h3>${several ? `<p class="sub">${escapeText(kernel.input)}</p>` : ""}${full}${charts(table)}${told}${moves ? cellTable(table) : `<details><summary>${plural(kernel.cells.length, "build")}</summary>${cellTable(table)}</details>`}</section>`;
  }).join("");
  const notes = MATRIX.notes.map((text) => `<p class="sub">${escapeText(text)}</p>`).join("");
  const more = MATRIX.kernels.length > grid.kernels ? `<button id="matrix-more">show ${thousands(Math.min(KERNELS_AT_ONCE, MATRIX.kernels.length - grid.kernels))} more of ${plural(MATRIX.kernels.length, "kernel")}</button>` : "";
  $("overview").innerHTML = `<h1>${escapeText(MATRIX.title)}</h1><p class="sub">${escapeText(MATRIX.summary)}</p>${failures}${bisections}${MATRIX.kernels.length ? glance() : ""}${notes}${sections}${more}`;
  $("unit").textContent = MATRIX.title;
}

function onMatrixClick(event) {
  if (!MATRIX) return false;
  const cell = event.target.closest("[data-cell]"), { metric, table, long } = event.target.dataset;
  if (cell) {
    const [kernel, number] = cell.dataset.cell.split(".").map(Number), { full, cells } = MATRIX.kernels[kernel];
    openRow({ full: `${full}, ${placeText(cells[number])}`, ...cells[number] });
  } else if (table !== undefined) $(`matrix-${table}`).scrollIntoView();
  else if (metric !== undefined) { grid.metric = Number(metric); showMatrix(); }
  else if (long !== undefined) { grid.long.add(Number(long)); showMatrix(); }
  else if (event.target.id === "matrix-more") { grid.kernels += KERNELS_AT_ONCE; showMatrix(); }
  return true;
}
