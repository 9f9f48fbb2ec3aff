// A library's table: every function of it; those whose code is in the page open, of the others it says how to see them.

const LIBRARY = INDEX.library;
const SHOWN_AT_ONCE = 300;
// Cubins that a row's title names.
const PLACES = 12;
const table = { sort: null, down: true, limit: SHOWN_AT_ONCE, wanted: "" };

const librarySource = (row) => `${row.full} ${row.name} ${row.arch} ${row.entry} ${row.places.join(" ")}`.toLowerCase();

/** The rows that are wanted, in the order that is wanted. */
function libraryRows() {
  const rows = table.wanted ? LIBRARY.rows.filter((row) => librarySource(row).includes(table.wanted)) : [...LIBRARY.rows];
  if (table.sort === null) return rows;
  const value = (row) => (table.sort < LIBRARY.columns.length ? row.figures[table.sort] : table.sort === LIBRARY.columns.length ? row.arch : row.full);
  const by = (x, y) => (x < y ? -1 : x > y ? 1 : 0) * (table.down ? -1 : 1);
  return rows.sort((a, b) => {
    const [x, y] = [value(a), value(b)];
    return x === null || y === null ? (x === null) - (y === null) : by(x, y);
  });
}

function libraryTable() {
  const rows = libraryRows(), shown = rows.slice(0, table.limit);
  const sorted = (c) => (table.sort === c ? ` aria-sort="${table.down ? "descending" : "ascending"}"` : "");
  const titles = [...LIBRARY.columns, "arch", "kernel"];
  // The name stands first: it is what people look for.
  const order = [titles.length - 1, titles.length - 2, ...LIBRARY.columns.map((_, c) => c)];
  const head = order.map((c) => `<th data-t="${c}"${sorted(c)}>${escapeText(titles[c])}</th>`).join("");
  const cell = (row, c) => { const value = row.figures[c]; return `<td class="${value === null ? "unknown" : LIBRARY.columns[c] === "spills" && value ? "bad" : ""}">${value === null ? "?" : row.at_most.includes(c) ? `≤${thousands(value)}` : thousands(value)}</td>`; };
  const body = shown.map((row) => {
    const options = row.options ? `<small>${escapeText(row.options)}</small>` : "";
    return `<tr data-r="${LIBRARY.rows.indexOf(row)}" tabindex="0"><td class="name${row.k === null ? "" : " has-page"}" title="${escapeText([row.full, row.entry, ...row.places.slice(0, PLACES)].join("\n"))}">${escapeText(row.name)}${options}</td><td>${escapeText(row.arch)}</td>${LIBRARY.columns.map((_, c) => cell(row, c)).join("")}</tr>`;
  }).join("");
  const more = rows.length > shown.length ? `<button id="library-more">show ${thousands(Math.min(SHOWN_AT_ONCE, rows.length - shown.length))} more of ${thousands(rows.length)}</button>` : "";
  $("library-rows").innerHTML = `<table><thead><tr>${head}</tr></thead><tbody>${body}</tbody></table>${more}`;
  $("library-rows").insertAdjacentHTML("beforeend", LIBRARY.notes.map((note) => `<p class="sub">${escapeText(note)}</p>`).join(""));
  $("library-shown").textContent = `${thousands(shown.length)} of ${plural(rows.length, "row")}`;
}

/** The whole library: sums, how many kernels have how many registers, every function. */
function showLibrary() {
  $("overview").hidden = false;
  $("kernel").hidden = true;
  document.title = `${LIBRARY.title} · ptxinspect`;
  markKernel();
  const errors = LIBRARY.errors.map(({ path, message }) => `<div class="finding error"><b>unreadable</b><span>${escapeText(path)}: ${escapeText(message)}</span></div>`).join("");
  const sums = LIBRARY.by_arch.map((row) => `<tr>${row.map((text) => `<td>${escapeText(text)}</td>`).join("")}</tr>`).join("");
  const most = LIBRARY.histogram.reduce((all, [, , count]) => Math.max(all, count), 1);
  const bars = LIBRARY.histogram.map(([from, to, count]) => `<div class="bar-row"><span>${from}–${to}</span><i style="width:${(count / most) * 55}%"></i><span>${thousands(count)}</span></div>`).join("");
  $("overview").innerHTML = `<h1>${escapeText(LIBRARY.title)}</h1><p class="sub">${escapeText(LIBRARY.summary)}</p>${errors}<div class="side-by-side"><div class="scroll-x"><table class="still"><thead><tr>${LIBRARY.sums.map((title) => `<th>${escapeText(title)}</th>`).join("")}</tr></thead><tbody>${sums}</tbody></table></div><div class="bars"><h2>Kernels by registers</h2>${bars}</div></div><p class="table-tools"><input id="library-filter" type="search" placeholder="Filter by kernel, architecture or file" aria-label="Filter rows" autocomplete="off" spellcheck="false" value="${escapeText(table.wanted)}"> <span id="library-shown" role="status"></span></p><div class="scroll-x" id="library-rows"></div>`;
  $("unit").textContent = LIBRARY.title;
  libraryTable();
  $("library-filter").addEventListener("input", (event) => { table.wanted = event.target.value.trim().toLowerCase(); table.limit = SHOWN_AT_ONCE; libraryTable(); });
}

/** What a row leads to: its kernel's page, or how to make it. */
function openRow(row) {
  if (row.k !== null) return open(row.k);
  $("command-name").textContent = row.full;
  $("command-text").textContent = row.command;
  $("command").showModal();
}

function onLibraryClick(event) {
  if (!LIBRARY) return false;
  const head = event.target.closest("th[data-t]"), row = event.target.closest("tr[data-r]");
  if (head) {
    const c = Number(head.dataset.t);
    table.down = table.sort === c ? !table.down : c < LIBRARY.columns.length;
    table.sort = c;
    libraryTable();
  } else if (row) openRow(LIBRARY.rows[Number(row.dataset.r)]);
  else if (event.target.id === "library-more") { table.limit += SHOWN_AT_ONCE; libraryTable(); }
  return true;
}
