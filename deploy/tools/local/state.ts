import { randomBytes } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { chmod, mkdir, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { freePort, isPortFree } from "#shared/testing/free-port.ts";

/** Of PostgreSQL's superuser and of each service's login there, and of the logins of NATS and Redis. */
export type Passwords = Record<(typeof logins)[number], string>;

const logins = [
  "postgres",
  "authQuota",
  "billing",
  "videoTask",
  "console",
  "natsOperator",
  "natsRelay",
  "natsBilling",
  "natsVideoTask",
  "redisOperator",
  "redisAuthQuota",
] as const;

/** What a local stack remembers from one start to the next, in seed.json. Local development only. */
export type LocalState = {
  /** Tells this data folder from others in names outside of it. */
  id: string;
  ports: Record<string, number>;
  passwords: Passwords;
  /** HOLD_PROOF_KEYS of auth-quota and billing. */
  holdProofKeys: string;
  /** The seeded key with its secret, so that a later start can print the same curl line. */
  key?: { keyId: string; secret: string };
  /** By which the first operator of the console is made. */
  consoleToken?: string;
  /** SHA-256 of the catalog as it was last written here; another content has been edited by hand. */
  catalogHash?: string;
};

/** Reads the state of a data folder, or makes and writes a new one. */
export async function openState(folder: string): Promise<LocalState> {
  // PostgreSQL runs as another user when this is root, and must pass through.
  await mkdir(folder, { recursive: true });
  await chmod(folder, 0o711);
  const file = join(folder, "seed.json");
  const saved = existsSync(file) ? (JSON.parse(readFileSync(file, "utf8")) as SavedState) : undefined;
  const state: LocalState = {
    ...(saved ?? { id: randomBytes(4).toString("hex"), ports: {} }),
    passwords: { ...newPasswords(), ...saved?.passwords },
    holdProofKeys: saved?.holdProofKeys ?? randomBytes(32).toString("base64"),
  };
  // Before anything is made with these passwords: a start that is cut short must not lose them.
  await saveState(folder, state);
  return state;
}

/** A state that was saved before a service was added lacks the password of its login. */
type SavedState = Omit<LocalState, "passwords" | "holdProofKeys"> & {
  passwords: Partial<Passwords>;
  holdProofKeys?: string;
};

function newPasswords(): Passwords {
  return Object.fromEntries(logins.map((login) => [login, randomBytes(16).toString("hex")])) as Passwords;
}

/** Writes the state, readable by its owner only. */
export async function saveState(folder: string, state: LocalState): Promise<void> {
  const file = join(folder, "seed.json");
  await writeFile(`${file}.new`, `${JSON.stringify(state, null, 2)}\n`, { mode: 0o600 });
  await rename(`${file}.new`, file);
}

/** The port of a name: the remembered one while it is free, else a new one, which is remembered. */
export async function claimPort(state: LocalState, name: string): Promise<number> {
  const remembered = state.ports[name];
  const port = remembered !== undefined && (await isPortFree(remembered)) ? remembered : await freePort();
  state.ports[name] = port;
  return port;
}
