// Live registers along the code, with what bounds them and what happens there.

class Curve {
  constructor(canvas, tip, { onPick }) {
    this.canvas = canvas;
    this.tip = tip;
    this.onPick = onPick;
    this.code = null;
    this.linked = [];
    new ResizeObserver(() => this.draw()).observe(canvas);
    canvas.addEventListener("mousemove", (event) => this.move(event));
    canvas.addEventListener("mouseleave", () => { this.hover = null; this.tip.hidden = true; this.draw(); });
    canvas.addEventListener("mousedown", (event) => { this.drag = { from: this.at(event), x: event.offsetX }; });
    canvas.addEventListener("mouseup", (event) => this.release(event));
    canvas.addEventListener("dblclick", () => { if (this.code) { this.range = [0, this.code.count]; this.draw(); } });
  }

  set(code) {
    this.code = code;
    this.range = code ? [0, Math.max(1, code.count)] : [0, 1];
    this.selected = null;
    this.linked = [];
    this.draw();
  }

  select(at, linked) { this.selected = at; this.linked = linked; this.later(); }

  later() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => { this.waiting = false; this.draw(); });
  }

  box() {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    return { left: 44, right: width - 124, top: 12, bottom: height - 34, width, height };
  }

  at(event) {
    const { left, right } = this.box();
    const [from, to] = this.range;
    return Math.max(from, Math.min(to - 1, Math.floor(from + ((event.offsetX - left) / (right - left)) * (to - from))));
  }

  move(event) {
    if (!this.code || !this.code.count) return;
    const { code } = this;
    const at = (this.hover = this.at(event));
    const line = code.line[at];
    const live = code.gpr ? `<b>${code.gpr[at]}</b> live · ` : "";
    const marks = (code.marksAt.get(at) || []).map((mark) => ` · ${escapeText(markWords(mark))}`).join("");
    this.tip.innerHTML = `${live}pc ${hex(at * 16)}${line ? ` · line ${line}` : ""}${marks}<br><code>${escapeText(code.asm[at])}</code>`;
    this.tip.hidden = false;
    const { width } = this.box();
    const wide = this.tip.offsetWidth;
    this.tip.style.left = `${Math.max(4, Math.min(event.offsetX + 14, width - wide - 4))}px`;
    this.tip.style.top = `${Math.max(2, event.offsetY - 48)}px`;
    this.later();
  }

  release(event) {
    if (!this.drag || !this.code || !this.code.count) return;
    const { from, x } = this.drag;
    this.drag = null;
    const to = this.at(event);
    if (Math.abs(event.offsetX - x) > 6 && Math.abs(to - from) > 3) this.range = [Math.min(from, to), Math.max(from, to) + 1];
    else this.onPick(this.nearest(event));
    this.later();
  }

  /** The instruction under the pointer, or a mark or the highest point close by: one pixel may be a thousand instructions. */
  nearest(event) {
    const { left, right } = this.box();
    const at = this.at(event), reach = Math.ceil(((this.range[1] - this.range[0]) / Math.max(1, right - left)) * 3);
    const near = this.code.marks.filter((mark) => mark.at !== null && mark.kind !== "loop" && Math.abs(mark.at - at) <= reach);
    if (near.length) return near.reduce((best, mark) => (Math.abs(mark.at - at) < Math.abs(best.at - at) ? mark : best)).at;
    if (!this.code.gpr || reach < 2) return at;
    let best = at;
    for (let i = Math.max(0, at - reach); i < Math.min(this.code.count, at + reach); i++) if (this.code.gpr[i] > this.code.gpr[best]) best = i;
    return best;
  }

  draw() {
    const { canvas, code } = this;
    const ratio = window.devicePixelRatio || 1;
    const box = this.box();
    canvas.width = box.width * ratio;
    canvas.height = box.height * ratio;
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    pen.font = `11px ${colourOf("--sans")}`;
    if (!code || !code.count) return;
    const [from, to] = this.range;
    const x = (at) => box.left + ((at - from) / (to - from)) * (box.right - box.left);
    const shown = code.raw.steps.filter(([registers]) => registers <= code.top * 1.35 + 8 && registers >= 8);
    const most = Math.max(code.top * 1.06, ...shown.filter(([registers]) => registers <= code.top * 1.2).map(([registers]) => registers * 1.04));
    const y = (live) => box.bottom - (live / most) * (box.bottom - box.top);
    const soft = colourOf("--soft"), faint = colourOf("--faint"), rule = colourOf("--rule");
    pen.fillStyle = rule;
    pen.fillRect(box.left, box.bottom, box.right - box.left, 1);
    this.drawLoops(pen, box, x);
    if (code.gpr) {
      this.drawArea(pen, box, x, y);
      this.drawBounds(pen, box, x, y, shown, most);
    } else {
      pen.fillStyle = soft;
      pen.textAlign = "center";
      pen.fillText(`Live registers are not known for ${code.kernel.unit.arch || "this architecture"}.`, (box.left + box.right) / 2, (box.top + box.bottom) / 2);
    }
    this.drawMarks(pen, box, x);
    pen.textAlign = "center";
    pen.fillStyle = faint;
    for (let i = 0; i <= 4; i++) {
      const at = Math.round(from + ((to - 1 - from) * i) / 4);
      pen.textAlign = i === 0 ? "left" : i === 4 ? "right" : "center";
      pen.fillText(hex(at * 16), x(at), box.height - 4);
    }
    pen.textAlign = "right";
    pen.fillText("pc", box.left - 7, box.height - 4);
    const line = (at, colour, width) => {
      if (at === null || at === undefined || at < from || at >= to) return;
      pen.fillStyle = colour;
      pen.fillRect(x(at + 0.5) - width / 2, box.top - 4, width, box.bottom - box.top + 22);
    };
    line(this.hover, faint, 1);
    pen.fillStyle = colourOf("--accent");
    for (const at of this.linked.slice(0, 4000)) if (at >= from && at < to) pen.fillRect(x(at + 0.5) - 1, box.top - 7, 2, 5);
    line(this.selected, colourOf("--accent"), 1.5);
  }

  drawLoops(pen, box, x) {
    const [from, to] = this.range;
    pen.fillStyle = colourOf("--loop");
    for (const [, first, last, depth] of this.code.raw.loops) {
      if (last < from || first >= to || depth > 6) continue;
      pen.globalAlpha = 0.09;
      pen.fillRect(x(Math.max(first, from)), box.top, Math.max(1, x(Math.min(last + 1, to)) - x(Math.max(first, from))), box.bottom - box.top);
    }
    pen.globalAlpha = 1;
  }

  drawArea(pen, box, x, y) {
    const { code } = this;
    const [from, to] = this.range;
    const role = code.role;
    const stepped = (to - from) / (box.right - box.left) < 1;
    const points = [];
    if (stepped) {
      for (let at = from; at < to; at++) points.push([x(at), code.gpr[at], x(at + 1), at]);
    } else {
      for (let px = Math.floor(box.left); px < box.right; px++) {
        const a = Math.floor(from + ((px - box.left) / (box.right - box.left)) * (to - from));
        const b = Math.max(a + 1, Math.floor(from + ((px + 1 - box.left) / (box.right - box.left)) * (to - from)));
        let peak = Math.max(0, a);
        for (let at = a; at < Math.min(b, code.count); at++) if (code.gpr[at] > code.gpr[peak]) peak = at;
        points.push([px, code.gpr[peak], px + 1, peak]);
      }
    }
    const live = colourOf("--live"), hot = colourOf("--hot");
    for (const [left, value, right, at] of points) {
      const budget = code.budget.of[at] >= 0 ? code.budget.regions[code.budget.of[at]].registers : -1;
      const bound = budget > 0 ? budget : code.registers;
      const dim = role !== undefined && role !== null && code.budget.of[at] !== role;
      pen.globalAlpha = dim ? 0.1 : 0.3;
      pen.fillStyle = bound && value >= bound * 0.95 ? hot : live;
      pen.fillRect(left, y(value), right - left + 0.4, box.bottom - y(value));
      pen.globalAlpha = dim ? 0.25 : 1;
      pen.fillRect(left, y(value) - 0.75, right - left + 0.4, 1.5);
    }
    pen.globalAlpha = 1;
  }

  drawBounds(pen, box, x, y, steps, most) {
    const { code } = this;
    const [from, to] = this.range;
    const labels = [];
    pen.lineWidth = 1;
    pen.setLineDash([2, 3]);
    for (const [registers, blocks] of steps) {
      if (registers > most) continue;
      pen.strokeStyle = colourOf("--faint");
      pen.globalAlpha = 0.7;
      pen.beginPath();
      pen.moveTo(box.left, y(registers));
      pen.lineTo(box.right, y(registers));
      pen.stroke();
      pen.globalAlpha = 1;
      labels.push({ y: y(registers), text: `${registers} → ${blocks} block${blocks === 1 ? "" : "s"}/SM`, colour: "--soft", weight: 1 });
    }
    pen.setLineDash([]);
    if (code.registers) {
      pen.fillStyle = colourOf("--ink");
      pen.fillRect(box.left, y(code.registers) - 0.5, box.right - box.left, 1);
      labels.push({ y: y(code.registers), text: `${code.registers} allocated`, colour: "--ink", weight: 3 });
    }
    // The budget in force, where setmaxnreg changed it.
    pen.strokeStyle = colourOf("--budget");
    pen.lineWidth = 2;
    pen.beginPath();
    let last = -2;
    for (let at = from; at < to; at++) {
      const region = code.budget.of[at];
      if (region === last) continue;
      if (last >= 0 && code.budget.regions[last].registers > 0) pen.lineTo(x(at), y(code.budget.regions[last].registers));
      last = region;
      if (region >= 0 && code.budget.regions[region].registers > 0) pen.moveTo(x(at), y(code.budget.regions[region].registers));
    }
    if (last >= 0 && code.budget.regions[last].registers > 0) pen.lineTo(x(to), y(code.budget.regions[last].registers));
    pen.stroke();
    for (const region of code.budget.regions) if (region.registers > 0) labels.push({ y: y(region.registers), text: `${region.registers} budget`, colour: "--budget", weight: 2 });
    const peak = code.raw.peak === null ? 0 : code.gpr[code.raw.peak];
    pen.textBaseline = "middle";
    pen.textAlign = "right";
    pen.fillStyle = colourOf("--soft");
    pen.fillText("0", box.left - 7, y(0) - 4);
    pen.fillStyle = colourOf("--ink");
    pen.fillText(peak, box.left - 7, y(peak));
    pen.textAlign = "left";
    // The weightiest labels first; what would overlap is left out.
    const taken = [];
    for (const label of labels.sort((a, b) => b.weight - a.weight)) {
      const at = Math.max(box.top, label.y);
      if (taken.some((other) => Math.abs(other - at) < 12)) continue;
      taken.push(at);
      pen.fillStyle = colourOf(label.colour);
      pen.fillText(label.text, box.right + 8, at);
    }
    pen.textBaseline = "alphabetic";
    pen.fillStyle = colourOf("--soft");
    pen.fillText("live registers", 8, box.top - 1);
  }

  drawMarks(pen, box, x) {
    const [from, to] = this.range;
    const lanes = { spill_store: 0, spill_refill: 0, spill: 0, barrier: 1, setmaxnreg: 1, finding: 1, peak: -1 };
    for (const mark of this.code.marks) {
      if (mark.at === null || mark.at < from || mark.at >= to || !(mark.kind in lanes)) continue;
      const lane = lanes[mark.kind], at = x(mark.at + 0.5);
      pen.fillStyle = colourOf(KINDS[mark.kind].colour);
      if (lane < 0) {
        pen.beginPath();
        pen.moveTo(at, box.top - 2);
        pen.lineTo(at - 4, box.top - 9);
        pen.lineTo(at + 4, box.top - 9);
        pen.fill();
      } else pen.fillRect(at - 0.75, box.bottom + 4 + lane * 8, 1.5, 6);
    }
  }
}
