// What the console's pages do with script beyond htmx; without it they show and change all the same.

const darkness = matchMedia("(prefers-color-scheme: dark)");
const chartHeightPx = 240;

for (const table of document.querySelectorAll("table[data-chart]")) showChart(table);
for (const button of document.querySelectorAll("button[data-copy]")) showCopyButton(button);
for (const toast of document.querySelectorAll(".toast")) showCloseButton(toast);
showLocalTimes();
setInterval(showLocalTimes, 30_000);
document.addEventListener("htmx:after:swap", showLocalTimes);
keepLivePartsInBounds();

/** Draws the rows of a table as bars, before the table; the heading of a row is its label, `data-value` its height. */
function showChart(table) {
  const rows = [...table.querySelectorAll("tbody tr[data-value]")];
  if (rows.length === 0) return;
  const labels = rows.map((row) => row.querySelector("th").textContent.trim());
  const values = rows.map((row) => Number(row.dataset.value));
  const place = document.createElement("div");
  place.className = "chart";
  place.setAttribute("role", "img");
  place.setAttribute("aria-label", `Chart: ${table.caption.textContent.trim()}. The table has the same figures.`);
  (table.closest("details") ?? table.closest(".scroll") ?? table).before(place);

  let chart;
  const draw = () => {
    chart?.destroy();
    const size = { width: place.clientWidth, height: chartHeightPx };
    chart = new globalThis.uPlot(
      { ...size, ...chartOptions(labels, table.dataset.chart, place) },
      [labels.map((_, index) => index), values],
      place,
    );
  };
  draw();
  darkness.addEventListener("change", draw);
  new ResizeObserver(() => chart.setSize({ width: place.clientWidth, height: chartHeightPx })).observe(place);
}

function chartOptions(labels, unit, place) {
  // Tokens are written for both schemes; a canvas takes the one color that is meant now.
  const color = (name) => {
    place.style.color = `var(${name})`;
    return getComputedStyle(place).color;
  };
  const line = { stroke: color("--border"), width: 1 };
  const { fontFamily } = getComputedStyle(place);
  const fonts = { font: `12px ${fontFamily}`, labelFont: `bold 12px ${fontFamily}` };
  const axis = { stroke: color("--muted-foreground"), grid: line, ticks: line, ...fonts };
  const figures = new Intl.NumberFormat("en-US", { maximumSignificantDigits: 3 });
  const short = (label = "") => (label.length > 14 ? `${label.slice(0, 13)}…` : label);
  return {
    legend: { show: false },
    cursor: { show: false },
    scales: {
      x: { time: false, range: () => [-0.5, labels.length - 0.5] },
      y: { range: (_chart, _least, most) => [0, most > 0 ? most * 1.1 : 1] },
    },
    axes: [
      { ...axis, grid: { show: false }, incrs: [1, 2, 5, 10, 20, 50, 100], space: 100, values: labelsAt },
      { ...axis, label: unit, size: 80, values: (_chart, splits) => splits.map((split) => figures.format(split)) },
    ],
    series: [
      {},
      {
        fill: color("--primary"),
        width: 0,
        points: { show: false },
        paths: globalThis.uPlot.paths.bars({ size: [0.7, 60] }),
      },
    ],
  };

  function labelsAt(_chart, splits) {
    return splits.map((split) => (Number.isInteger(split) ? short(labels[split]) : ""));
  }
}

/** Browsers give the clipboard to pages that came over HTTPS or from this machine. */
export function showCopyButton(button) {
  if (!navigator.clipboard) return;
  const status = document.createElement("span");
  status.setAttribute("role", "status");
  button.after(status);
  button.hidden = false;
  button.addEventListener("click", async () => {
    const text = document.getElementById(button.dataset.copy)?.textContent.trim() ?? "";
    try {
      await navigator.clipboard.writeText(text);
      status.textContent = " Copied.";
    } catch {
      status.textContent = " Not copied: your browser does not allow it. Select the text and copy it.";
    }
  });
}

function showCloseButton(toast) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "ghost small";
  button.textContent = "Dismiss";
  button.addEventListener("click", () => toast.remove());
  toast.append(" ", button);
}

/** Instants in the zone of who reads them, or as how long ago they were; `title` tells them in UTC. */
function showLocalTimes() {
  const clock = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
  for (const time of document.querySelectorAll("time:not([data-utc])")) {
    const at = new Date(time.dateTime);
    time.textContent = "ago" in time.dataset ? agoOf(at) : clock.format(at);
  }
  const zone = clock.resolvedOptions().timeZone;
  const note = document.querySelector("[data-times]");
  if (note) note.textContent = `Amounts are in USD, times in your zone (${zone}), days in UTC.`;
}

function agoOf(at) {
  const steps = [
    [60, "second"],
    [60, "minute"],
    [24, "hour"],
    [Infinity, "day"],
  ];
  let number = (at.getTime() - Date.now()) / 1_000;
  for (const [size, unit] of steps) {
    if (Math.abs(number) < size)
      return new Intl.RelativeTimeFormat("en", { numeric: "auto" }).format(Math.trunc(number), unit);
    number /= size;
  }
}

/** Live parts rest while nobody sees them, and do not show a sign-in within a page when the session has ended. */
function keepLivePartsInBounds() {
  document.addEventListener("htmx:config:request", (event) => {
    if (document.hidden) event.preventDefault();
  });
  document.addEventListener("htmx:before:swap", (event) => {
    if (!event.detail.ctx.response?.raw.redirected) return;
    event.preventDefault();
    location.reload();
  });
}
