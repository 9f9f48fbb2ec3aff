// A list that only has the rows in sight in the page, however many there are.

const ROW = 20;
// Browsers cannot lay out boxes much taller than this; longer lists scroll in larger steps.
const TALLEST = 8e6;

class RowList {
  /** `html(i)` is a row, `names(i)` its classes. */
  constructor(box, { html, names, onPick, onHover, label }) {
    this.box = box;
    this.html = html;
    this.names = names;
    this.count = 0;
    box.tabIndex = 0;
    box.setAttribute("role", "listbox");
    box.setAttribute("aria-label", label);
    this.inner = box.appendChild(document.createElement("div"));
    this.inner.className = "inner";
    this.rows = this.inner.appendChild(document.createElement("div"));
    this.rows.className = "rows";
    box.addEventListener("scroll", () => this.later(), { passive: true });
    new ResizeObserver(() => this.later()).observe(box);
    this.rows.addEventListener("click", (event) => {
      const at = this.rowAt(event);
      if (at !== null) onPick(at, event);
    });
    this.rows.addEventListener("mouseover", (event) => onHover && onHover(this.rowAt(event)));
    this.rows.addEventListener("mouseleave", () => onHover && onHover(null));
  }

  rowAt(event) {
    const row = event.target.closest("[data-i]");
    return row ? Number(row.dataset.i) : null;
  }

  set(count, columns) {
    this.count = count;
    const height = count * ROW;
    this.scale = height > TALLEST ? height / TALLEST : 1;
    this.inner.style.height = `${Math.min(height, TALLEST)}px`;
    this.inner.style.width = columns ? `calc(${columns}ch * 0.93 + 220px)` : "";
    this.later();
  }

  /** The first row in sight, as a fraction. */
  top() {
    const { scrollTop, scrollHeight, clientHeight } = this.box;
    if (this.scale === 1) return scrollTop / ROW;
    const share = scrollHeight > clientHeight ? scrollTop / (scrollHeight - clientHeight) : 0;
    return share * (this.count - clientHeight / ROW);
  }

  later() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => { this.waiting = false; this.draw(); });
  }

  draw() {
    const first = this.top();
    const from = Math.max(0, Math.floor(first) - 8);
    const to = Math.min(this.count, Math.ceil(first + this.box.clientHeight / ROW) + 8);
    let html = "";
    for (let i = from; i < to; i++) html += this.html(i);
    this.rows.innerHTML = html;
    const y = this.scale === 1 ? from * ROW : this.box.scrollTop - (first - from) * ROW;
    this.rows.style.transform = `translateY(${y}px)`;
  }

  /** Classes anew, the rows themselves stay: a press of the mouse must end on the row it began on. */
  restyle() {
    for (const row of this.rows.children) if (row.dataset.i !== undefined) row.className = this.names(Number(row.dataset.i));
  }

  /** Brings a row into sight: where it is already, nothing moves. */
  show(row, { centre = false } = {}) {
    const visible = this.box.clientHeight / ROW, first = this.top();
    if (!centre && row >= first + 1 && row < first + visible - 2) return;
    const near = !centre && row > first - 3 && row < first + visible + 2;
    const wanted = near ? (row < first + 1 ? row - 1 : row - visible + 3) : row - visible * 0.4;
    const top = Math.max(0, Math.min(wanted, this.count - visible));
    if (this.scale === 1) this.box.scrollTop = top * ROW;
    else this.box.scrollTop = (top / Math.max(1, this.count - visible)) * (this.box.scrollHeight - this.box.clientHeight);
    this.later();
  }
}

/** The strip beside a list that shows where things are in all of it. */
class Ruler {
  constructor(pane, list) {
    this.canvas = pane.appendChild(document.createElement("canvas"));
    this.canvas.className = "ruler";
    this.list = list;
    this.layers = [];
    this.canvas.addEventListener("click", (event) => {
      const box = this.canvas.getBoundingClientRect();
      list.show(Math.floor(((event.clientY - box.top) / box.height) * list.count), { centre: true });
    });
    new ResizeObserver(() => this.draw()).observe(this.canvas);
  }

  set(layers) { this.layers = layers; this.draw(); }

  draw() {
    const ratio = window.devicePixelRatio || 1;
    const { clientWidth: width, clientHeight: height } = this.canvas;
    this.canvas.width = width * ratio;
    this.canvas.height = height * ratio;
    const pen = this.canvas.getContext("2d");
    pen.scale(ratio, ratio);
    const total = Math.max(1, this.list.count);
    for (const { rows, colour, wide } of this.layers) {
      pen.fillStyle = colourOf(colour);
      let last = -2;
      for (const row of rows) {
        const y = Math.floor((row / total) * height);
        if (y === last) continue;
        last = y;
        pen.fillRect(wide ? 0 : 4, y, wide ? width : width - 4, 2);
      }
    }
  }
}

const colourOf = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
