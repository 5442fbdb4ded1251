import type { Profiler } from "node:inspector";
import { formatFigure, renderTable } from "./table.ts";

/** A function and how much of the busy time it took, with the callers from which most of that came, nearest first. */
export type Hot = { name: string; percent: number; callers: string[] };

/** Where the time of a profile went: in functions alone, and in them with all that they call. */
export type ProfileSummary = { busyMs: number; self: Hot[]; inclusive: Hot[] };

const shownCallers = 3;
/** V8's names for what is no work of the program, and for where all stacks begin. */
const idleName = "(idle)";
const rootName = "(root)";

type Node = Profiler.ProfileNode;
type Sum = { us: number; byCallers: Map<string, { us: number; callers: string[] }> };

/**
 * The functions that took most of the busy time after the first `skipMs`. A function that calls itself counts once. In
 * inclusive time only the repository's own functions are told: Node's stand around all of them.
 */
export function summarizeProfile(
  { nodes, samples = [], timeDeltas = [], startTime }: Profiler.Profile,
  { root, skipMs, most }: { root: string; skipMs: number; most: number },
): ProfileSummary {
  const stackOf = createStacks(nodes, root);
  const [self, inclusive] = [new Map<string, Sum>(), new Map<string, Sum>()];
  let [atUs, busyUs] = [startTime, 0];
  for (const [index, id] of samples.entries()) {
    atUs += timeDeltas[index] ?? 0;
    const us = timeDeltas[index + 1] ?? 0;
    const stack = stackOf(id);
    const [top] = stack;
    if (atUs < startTime + skipMs * 1_000 || top === undefined || top.name === idleName) continue;
    busyUs += us;
    const names = stack.map(({ name }) => name);
    add(self, top.name, us, names.slice(1));
    for (const [depth, { name, isOwn }] of stack.entries()) {
      if (isOwn && names.lastIndexOf(name) === depth) add(inclusive, name, us, names.slice(depth + 1));
    }
  }
  const hottest = (sums: Map<string, Sum>): Hot[] =>
    [...sums]
      .toSorted(([, a], [, b]) => b.us - a.us)
      .slice(0, most)
      .map(([name, { us, byCallers }]) => ({ name, percent: (us * 100) / busyUs, callers: mostly(byCallers) }));
  return { busyMs: busyUs / 1_000, self: hottest(self), inclusive: hottest(inclusive) };
}

type Frame = { name: string; isOwn: boolean };

/** The frames of a node, the innermost first, without the root. */
function createStacks(nodes: readonly Node[], root: string): (id: number) => Frame[] {
  const parents = new Map(nodes.flatMap(({ id, children = [] }) => children.map((child) => [child, id] as const)));
  const frames = new Map(nodes.map(({ id, callFrame }) => [id, frameOf(callFrame, root)]));
  const known = new Map<number, Frame[]>();
  return (id) => {
    const found = known.get(id);
    if (found) return found;
    const stack: Frame[] = [];
    for (let at: number | undefined = id; at !== undefined; at = parents.get(at)) {
      const frame = frames.get(at);
      if (frame && frame.name !== rootName) stack.push(frame);
    }
    known.set(id, stack);
    return stack;
  };
}

function frameOf({ functionName, url, lineNumber }: Node["callFrame"], root: string): Frame {
  if (url === "") return { name: functionName || "(anonymous)", isOwn: false };
  const isOwn = url.startsWith(root) && !url.includes("/node_modules/");
  const place = url.replace(/^.*\/node_modules\//, "").replace(root, "");
  return { name: `${functionName || "(anonymous)"} ${place}:${lineNumber + 1}`, isOwn };
}

function add(sums: Map<string, Sum>, name: string, us: number, callers: string[]): void {
  const nearest = callers.slice(0, shownCallers);
  const sum = sums.get(name) ?? { us: 0, byCallers: new Map() };
  const key = nearest.join("\n");
  const from = sum.byCallers.get(key) ?? { us: 0, callers: nearest };
  sum.us += us;
  from.us += us;
  sum.byCallers.set(key, from);
  sums.set(name, sum);
}

function mostly(byCallers: Sum["byCallers"]): string[] {
  return [...byCallers.values()].toSorted((a, b) => b.us - a.us)[0]?.callers ?? [];
}

/** A summary as a table. */
export function renderSummary(service: string, { busyMs, self, inclusive }: ProfileSummary): string {
  const head = [`${service}, ${formatFigure(busyMs / 1_000)} s busy`, "% of it", "mostly called by"];
  const rows = (kind: string, hot: Hot[]): string[][] =>
    hot.map(({ name, percent, callers }) => [`${kind}: ${name}`, formatFigure(percent), callers.join(" ← ")]);
  return renderTable(head, [...rows("itself", self), ...rows("with all it calls", inclusive)]);
}
