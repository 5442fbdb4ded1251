import { diff } from "node:util";

const contextLines = 3;
const maxLines = 5_000;
const maxShown = 1_000;

type Line = readonly [sign: " " | "+" | "-", text: string];

/** What differs between two texts, line by line, with the lines around; undefined where that is too much to show. */
export function textDiff(before: string, after: string): string | undefined {
  const [old, next] = [before.split("\n"), after.split("\n")];
  let start = 0;
  while (start < Math.min(old.length, next.length) && old[start] === next[start]) start += 1;
  let end = 0;
  const most = Math.min(old.length, next.length) - start;
  while (end < most && old.at(-1 - end) === next.at(-1 - end)) end += 1;
  const [oldPart, nextPart] = [old.slice(start, old.length - end), next.slice(start, next.length - end)];
  if (oldPart.length + nextPart.length > maxLines) return undefined;
  const changed = diff(nextPart, oldPart).map(([sign, text]): Line => [
    sign === 1 ? "+" : sign === -1 ? "-" : " ",
    text,
  ]);
  const around = (lines: readonly string[]): Line[] => lines.map((text) => [" ", text]);
  const lines = [
    ...around(next.slice(Math.max(0, start - contextLines), start)),
    ...changed,
    ...around(next.slice(next.length - end).slice(0, contextLines)),
  ];
  const shown = lines.filter((_, at) =>
    lines.slice(Math.max(0, at - contextLines), at + contextLines + 1).some(([sign]) => sign !== " "),
  );
  if (shown.length > maxShown) return undefined;
  return shown.map(([sign, text]) => `${sign}${text.trimEnd()}`).join("\n");
}
