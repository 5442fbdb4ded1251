/** A line of a plot: a value for each mark of its axis. */
export type Line = { name: string; values: number[] };

export type Plot = { title: string; axis: string; unit: string; marks: string[]; lines: Line[] };

const width = 640;
const height = 360;
const left = 70;
const right = 20;
const top = 60;
const bottom = 60;
const colours = ["#1f6feb", "#d1242f", "#1a7f37", "#8250df"];
const gridLines = 5;

/** Draws lines over marks that stand at equal distances; the unit's axis begins at 0. */
export function renderPlot({ title, axis, unit, marks, lines }: Plot): string {
  const most = niceCeiling(Math.max(...lines.flatMap(({ values }) => values.filter(Number.isFinite)), 1e-9));
  const atX = (index: number): number => left + ((width - left - right) * index) / Math.max(1, marks.length - 1);
  const atY = (value: number): number => height - bottom - ((height - top - bottom) * value) / most;
  const grid = Array.from({ length: gridLines + 1 }, (_, index) => {
    const value = (most * index) / gridLines;
    const y = round(atY(value));
    return (
      `<line x1="${left}" y1="${y}" x2="${width - right}" y2="${y}" stroke="#d0d7de"/>` +
      text({ x: left - 8, y: y + 4, anchor: "end", words: String(round(value)) })
    );
  });
  const markTexts = marks.map((words, index) => text({ x: round(atX(index)), y: height - bottom + 18, words }));
  const drawn = lines.map(({ name, values }, index) => {
    const colour = colours[index % colours.length] as string;
    const points = values.flatMap((value, at) =>
      Number.isFinite(value) ? [`${round(atX(at))},${round(atY(value))}`] : [],
    );
    const dots = points.map((point) => {
      const [x, y] = point.split(",");
      return `<circle cx="${x}" cy="${y}" r="3" fill="${colour}"/>`;
    });
    const legend = text({ x: left + index * 160, y: top - 14, anchor: "start", words: name, colour });
    const line = `<polyline points="${points.join(" ")}" fill="none" stroke="${colour}" stroke-width="2"/>`;
    return `${line}${dots.join("")}${legend}`;
  });
  const titles = [
    text({ x: left, y: 22, anchor: "start", words: `${title}: ${unit}` }),
    text({ x: (left + width - right) / 2, y: height - 14, words: axis }),
  ];
  const body = ['<rect width="100%" height="100%" fill="#ffffff"/>', ...titles, ...grid, ...markTexts, ...drawn];
  const frame = `xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="sans-serif" font-size="12"`;
  return `<svg ${frame}>\n${body.join("\n")}\n</svg>\n`;
}

/** The next number of 1, 2 or 5 times a power of ten. */
export function niceCeiling(value: number): number {
  const power = 10 ** Math.floor(Math.log10(value));
  return (([1, 2, 5].find((step) => step * power >= value) ?? 10) as number) * power;
}

type Words = { x: number; y: number; words: string; anchor?: string; colour?: string };

function text({ x, y, words, anchor = "middle", colour = "#1f2328" }: Words): string {
  const safe = words.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
  return `<text x="${x}" y="${y}" text-anchor="${anchor}" fill="${colour}">${safe}</text>`;
}

function round(value: number): number {
  return Number(value.toFixed(1));
}
