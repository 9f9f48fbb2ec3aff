// What ptxas and the checks found, the worst first.

const GRADES = { info: 0, warning: 1, error: 2 };
const isLoss = (advisory) => advisory.message.startsWith("Potential Performance Loss");

function adviceOf(advisory) {
  const loss = isLoss(advisory), grade = GRADES[advisory.severity];
  return {
    code: advisory.code, kind: loss && grade === 0 ? "performance" : advisory.severity, message: advisory.message, line: advisory.ptx_line || advisory.first_ptx_line,
    source: advisory.source_line, serious: loss || grade > 0, rank: grade * 10 + (loss ? 5 : 0),
  };
}

function issueOf(issue) {
  const serious = issue.confidence !== "possible";
  return {
    code: issue.code, kind: issue.severity, message: `${issue.message} (${issue.confidence}: ${issue.reasoning})`, line: issue.ptx_line,
    source: issue.source_line, mend: issue.mend, serious, rank: (serious ? GRADES[issue.severity] * 10 + 7 : 0) + (issue.confidence === "certain" ? 1 : 0),
  };
}

/** Of one kernel: the checks' and ptxas's, those of the whole file included. */
function findingsOf({ facts, unit }) {
  const said = unit.advisories.filter((advisory) => advisory.kernel === null || advisory.kernel === facts.name).map(adviceOf);
  return [...facts.issues.map(issueOf), ...said].sort((a, b) => b.serious - a.serious || b.rank - a.rank);
}

const sourcePlace = ({ file, line, called_at: call }) => `${file.split(/[/\\]/).pop()}:${line}${call ? `, called at ${call.file.split(/[/\\]/).pop()}:${call.line}` : ""}`;

/** A change that mends it, tried by executing the kernel with it: as a small diff, where the text of the PTX is at hand. */
function mendOf({ change, lines }, ptx) {
  const row = (kind, sign, number, html) => `<span class="${kind}">${sign} ${String(number).padStart(5)}  ${html}</span>`;
  const rows = lines.map(({ ptx_line: number, column, replaces, instruction }) => {
    if (replaces === null) return row("", " ", number, "see the change in words");
    // Columns count characters.
    const letters = column === null ? [] : [...(ptx[number - 1] || "")], end = column - 1 + [...replaces].length;
    const fits = letters.slice(column - 1, end).join("") === replaces;
    const [before, after] = fits ? [letters.slice(0, column - 1).join("").trimStart(), letters.slice(end).join("")] : ["", ""];
    // What both have at their ends is not what changes.
    let [head, tail] = [0, 0];
    const most = Math.min(replaces.length, instruction.length);
    while (head < most && replaces[head] === instruction[head]) head += 1;
    while (tail < most - head && replaces[replaces.length - 1 - tail] === instruction[instruction.length - 1 - tail]) tail += 1;
    // Whole words and numbers.
    while (head && /\w/.test(replaces[head - 1])) head -= 1;
    while (tail && /\w/.test(replaces[replaces.length - tail])) tail -= 1;
    const half = (kind, sign, text) => {
      const marked = `${escapeText(before + text.slice(0, head))}\u0001${escapeText(text.slice(head, text.length - tail))}\u0002${escapeText(text.slice(text.length - tail) + after)}`;
      // A mark goes on over the end of a line.
      let open = false;
      return marked.split("\n").map((line) => {
        const html = (open ? "<b>" : "") + line.replace("\u0001", "<b>").replace("\u0002", "</b>");
        open = line.includes("\u0001") ? !line.includes("\u0002") : open && !line.includes("\u0002");
        return row(kind, sign, number, html + (open ? "</b>" : ""));
      }).join("");
    };
    return half("gone", "−", replaces) + ((before + instruction + after).trim() ? half("new", "+", instruction) : "");
  });
  return `<div class="mend"><small>With this change it ends, in every order of the warps that was tried: ${escapeText(change)}.</small><pre>${rows.join("")}</pre></div>`;
}

/** A finding as a box; where its kernel is open, its line can be gone to. */
function findingBox(finding, where = "", ptx = null) {
  const places = [];
  if (finding.line) places.push(where ? `line ${finding.line}` : `<a data-line="${finding.line}">line ${finding.line}</a>`);
  if (finding.source) places.push(escapeText(sourcePlace(finding.source)));
  if (where) places.push(`in ${escapeText(where)}`);
  const explain = INDEX.explained.includes(finding.code) ? `<code class="explain">ptxinspect explain ${escapeText(finding.code)}</code>` : "";
  return `<div class="finding ${finding.kind}"><b>${escapeText(finding.code || finding.kind)}</b><span>${escapeText(finding.message)}<small>${places.join(" · ")}${places.length && explain ? " · " : ""}${explain}</small>${finding.mend && ptx ? mendOf(finding.mend, ptx) : ""}</span></div>`;
}

/** What nobody should miss stands above everything else; the rest is a click away. */
function showFindings(kernel) {
  const code = codeOf(kernel), ptx = code ? code.ptx : [];
  const found = findingsOf(kernel), serious = found.filter((finding) => finding.serious), rest = found.filter((finding) => !finding.serious);
  const [first, more] = [serious.slice(0, 2), [...serious.slice(2), ...rest]];
  $("findings").hidden = !first.length;
  $("findings").innerHTML = first.map((finding) => findingBox(finding, "", ptx)).join("") + (first.length && more.length ? `<details><summary>${plural(more.length, "more finding")}</summary>${more.map((finding) => findingBox(finding, "", ptx)).join("")}</details>` : "");
}
