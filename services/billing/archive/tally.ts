import { createHash } from "node:crypto";
import { placeOf, type ArchiveRow } from "../store/archive-lines.ts";

type Sum = { lines: bigint; amountNanos: bigint };

/** What lines add up to: the same for the same lines in the same order, wherever they were read. */
export type Totals = {
  lines: bigint;
  amountNanos: bigint;
  accounts: number;
  /** By kind of line, in the order of kinds. */
  kinds: (Sum & { kind: number })[];
  /** SHA-256 of all values of all lines. */
  linesSha256: string;
  /** SHA-256 of the sums by account and kind, a line `account,kind,lines,amount` each. */
  accountsSha256: string;
};

const [accountAt, kindAt, amountAt] = [placeOf("account_id"), placeOf("kind"), placeOf("amount_nanos")];

/** Adds up lines, which come in the order of accounts: what it holds is as much as one account has kinds of lines. */
export function createLinesTally() {
  const lineHash = createHash("sha256");
  const accountHash = createHash("sha256");
  const whole = new Map<number, Sum>();
  let account: string | undefined;
  let ofAccount = new Map<number, Sum>();
  let accounts = 0;
  const endAccount = (): void => {
    if (account === undefined) return;
    accounts += 1;
    for (const [kind, { lines, amountNanos }] of sorted(ofAccount)) {
      accountHash.update(`${account},${kind},${lines},${amountNanos}\n`);
    }
    ofAccount = new Map();
  };
  const addLine = (row: ArchiveRow): void => {
    const kind = Number(row[kindAt]);
    const amountNanos = BigInt(row[amountAt] as bigint);
    if (row[accountAt] !== account) {
      endAccount();
      account = String(row[accountAt]);
    }
    addTo(ofAccount, kind, amountNanos);
    addTo(whole, kind, amountNanos);
    lineHash.update(textOf(row));
  };
  return {
    add: (rows: readonly ArchiveRow[]): void => rows.forEach(addLine),
    /** To be called once, at the end. */
    end: (): Totals => {
      endAccount();
      const kinds = sorted(whole).map(([kind, sum]) => ({ kind, ...sum }));
      return {
        lines: kinds.reduce((sum, { lines }) => sum + lines, 0n),
        amountNanos: kinds.reduce((sum, { amountNanos }) => sum + amountNanos, 0n),
        accounts,
        kinds,
        linesSha256: lineHash.digest("hex"),
        accountsSha256: accountHash.digest("hex"),
      };
    },
  };
}

const sorted = (sums: Map<number, Sum>): [number, Sum][] => [...sums].toSorted(([a], [b]) => a - b);

function addTo(sums: Map<number, Sum>, kind: number, amountNanos: bigint): void {
  const sum = sums.get(kind);
  if (!sum) {
    sums.set(kind, { lines: 1n, amountNanos });
    return;
  }
  sum.lines += 1n;
  sum.amountNanos += amountNanos;
}

// One text for one line, whatever its values are: texts are quoted, bytes are hexadecimal.
const textOf = (row: ArchiveRow): string =>
  `${row
    .map((value) => {
      if (value === null) return "";
      if (typeof value === "string") return JSON.stringify(value);
      return value instanceof Uint8Array ? `x${Buffer.from(value).toString("hex")}` : String(value);
    })
    .join()}\n`;
