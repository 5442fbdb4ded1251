/** What keeps this process from its work now, part by part; read by /readyz. */
export type Health = {
  /** Says why a part does not work; undefined: it works. */
  set: (part: string, problem: string | undefined) => void;
  reasons: () => string[];
};

/** Parts named here count as not working until they are said to. */
export function createHealth(parts: readonly string[]): Health {
  const problems = new Map(parts.map((part) => [part, "not tried yet"]));
  return {
    set: (part, problem) => {
      if (problem === undefined) problems.delete(part);
      else problems.set(part, problem);
    },
    reasons: () => [...problems].map(([part, problem]) => `${part}: ${problem}`),
  };
}
