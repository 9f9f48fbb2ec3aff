// Colouring of PTX, SASS and source. What comes in is text, what goes out is HTML with every character escaped.

const PTX_TOKEN = /(\/\/.*|\/\*.*?(?:\*\/|$))|("[^"]*")|(%[\w.$]+(?:\|%[\w.$]+)?)|(\$?[A-Za-z_$][\w$]*:(?!:))|(\.(?:visible|entry|func|reg|param|shared|global|local|const|version|target|address_size|maxntid|reqntid|minnctapersm|maxnreg|reqnctapercluster|extern|weak|align|loc|file|section|pragma|branchtargets|callprototype)\b)|(\b0[xXfFdD][0-9a-fA-F]+U?\b|\b\d+(?:\.\d+)?\b)|([a-z][a-z0-9_]*(?:(?:\.|::)[A-Za-z0-9_]+)+|\b(?:ret|exit|trap|bra|call|brx)\b)/g;
const PTX_CLASS = [null, "cm", "nu", "rg", "lb", "di", "nu", "op"];
const SASS_TOKEN = /(@!?U?P\w+)|(\b(?:U?P(?:\d|T)|B\d+|SB\d+)\b)|(\bU?R(?:\d+|Z)\b(?:\.[\w.]+)?)|(\bc\[\w+\]\[[^\]]*\])|(-?\b0x[0-9a-f]+\b|-?\b\d+(?:\.\d+)?(?:e[+-]?\d+)?\b)|(\b[A-Z][A-Z0-9_]*(?:\.[A-Z0-9_.]+)?\b)/g;
const SASS_CLASS = [null, "pr", "pr", "rg", "nu", "nu", "op"];

function colour(text, pattern, classes, wanted) {
  let html = "", at = 0;
  for (const match of text.matchAll(pattern)) {
    const number = match.findIndex((part, i) => i > 0 && part !== undefined);
    html += found(text.slice(at, match.index), wanted) + `<span class="${classes[number]}">${found(match[0], wanted)}</span>`;
    at = match.index + match[0].length;
  }
  return html + found(text.slice(at), wanted);
}

/** Escaped text with what is searched for marked. */
function found(text, wanted) {
  if (!wanted) return escapeText(text);
  let html = "", at = 0;
  const lower = text.toLowerCase();
  for (let next = lower.indexOf(wanted); next >= 0; next = lower.indexOf(wanted, at)) {
    html += `${escapeText(text.slice(at, next))}<mark>${escapeText(text.slice(next, next + wanted.length))}</mark>`;
    at = next + wanted.length;
  }
  return html + escapeText(text.slice(at));
}

// Tabs take room in a row; what would act or hide is spelt out in the data.
const tidy = (text) => text.replace(/\r$/, "").replace(/\t/g, "    ");
const ptxHtml = (text, wanted) => colour(tidy(text), PTX_TOKEN, PTX_CLASS, wanted);
const sassHtml = (text, wanted) => colour(text, SASS_TOKEN, SASS_CLASS, wanted);
const sourceHtml = (text, wanted) => found(tidy(text), wanted);

/** Scoreboards and stall count: what to wait for, read and write signals, yield, stall. */
function controlText(bits) {
  const stall = bits & 15, write = (bits >> 5) & 7, read = (bits >> 8) & 7, wait = (bits >> 11) & 63;
  let waits = "";
  for (let i = 0; i < 6; i++) waits += (wait >> i) & 1 ? i : "-";
  const signal = (number) => (number === 7 ? "-" : number);
  return `B${waits}:R${signal(read)}:W${signal(write)}:${bits & 16 ? "-" : "Y"}:S${String(stall).padStart(2, "0")}`;
}

/** The same in words. */
function controlWords(bits) {
  const stall = bits & 15, write = (bits >> 5) & 7, read = (bits >> 8) & 7, wait = (bits >> 11) & 63, reuse = (bits >> 17) & 15;
  const numbers = (mask) => [0, 1, 2, 3, 4, 5].filter((i) => (mask >> i) & 1).join(", ");
  const parts = [];
  if (wait) parts.push(`waits for scoreboards ${numbers(wait)}`);
  if (write !== 7) parts.push(`releases scoreboard ${write} when its result is there`);
  if (read !== 7) parts.push(`releases scoreboard ${read} when its operands are read`);
  parts.push(`the next one may issue ${stall === 1 ? "a cycle" : `${stall} cycles`} later`);
  if (!(bits & 16)) parts.push("another warp should go first");
  if (reuse) parts.push(`source operands ${numbers(reuse)} are kept`);
  return parts.join("; ");
}
