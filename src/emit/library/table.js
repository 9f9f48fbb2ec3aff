const data = JSON.parse(document.getElementById("rows").textContent);
const head = document.querySelector("#rows-table thead tr");
const body = document.querySelector("#rows-table tbody");
const filter = document.getElementById("filter");
const shown = document.getElementById("shown");
const PAGE = 500;
let order = data.rows.map((_, at) => at);
let sorted = null, down = true, limit = PAGE;
const cell = (row, value, numeric) => {
  const td = document.createElement("td");
  if (numeric) td.className = "n";
  td.textContent = value === null ? "-" : numeric ? value.toLocaleString("en") : value;
  row.appendChild(td);
};
const draw = () => {
  const wanted = filter.value.toLowerCase();
  const rows = order.filter((at) => !wanted || data.rows[at].some((v) => typeof v === "string" && v.toLowerCase().includes(wanted)));
  body.replaceChildren(...rows.slice(0, limit).map((at) => {
    const tr = document.createElement("tr");
    data.rows[at].forEach((value, column) => cell(tr, value, data.numeric[column]));
    return tr;
  }));
  shown.textContent = `${Math.min(limit, rows.length).toLocaleString("en")} of ${rows.length.toLocaleString("en")} rows`;
  document.getElementById("more").hidden = rows.length <= limit;
};
data.columns.forEach((title, column) => {
  const th = document.createElement("th");
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = title;
  th.appendChild(button);
  if (data.numeric[column]) th.className = "n";
  button.addEventListener("click", () => {
    down = sorted === column ? !down : data.numeric[column];
    sorted = column;
    const missing = (v) => v === null;
    order.sort((a, b) => {
      const [x, y] = [data.rows[a][column], data.rows[b][column]];
      if (missing(x) || missing(y)) return missing(x) - missing(y) || a - b;
      const by = data.numeric[column] ? x - y : x < y ? -1 : x > y ? 1 : 0;
      return (down ? -by : by) || a - b;
    });
    head.querySelectorAll("th").forEach((other, at) =>
      at === column ? other.setAttribute("aria-sort", down ? "descending" : "ascending") : other.removeAttribute("aria-sort"));
    draw();
  });
  head.appendChild(th);
});
filter.addEventListener("input", draw);
document.getElementById("more").addEventListener("click", () => { limit += PAGE; draw(); });
draw();
