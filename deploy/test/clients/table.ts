/** How the checks of a client over one upstream ended. */
export type Cell = { passed: number; failures: string[] };

export const sumOf = (one: Cell, other: Cell): Cell => ({
  passed: one.passed + other.passed,
  failures: [...one.failures, ...other.failures],
});

const say = ({ passed, failures }: Cell): string => `${passed}/${passed + failures.length}`;

/** Clients by upstreams: how many checks passed, of how many. */
export function formatTable(
  upstreams: readonly string[],
  rows: readonly { name: string; cells: readonly Cell[]; missing?: string }[],
): string {
  const lines = [
    ["client", ...upstreams],
    ...rows.map(({ name, cells, missing }) => [name, ...(missing === undefined ? cells.map(say) : ["skipped"])]),
  ];
  const width = Math.max(...lines.map(([name = ""]) => name.length));
  return lines
    .map(([name = "", ...texts]) => [name.padEnd(width), ...texts.map((text) => text.padEnd(10))].join("  ").trimEnd())
    .join("\n");
}
