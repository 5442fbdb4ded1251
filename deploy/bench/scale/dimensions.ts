import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { idleLoad, smallLoad, startLoad, type Load } from "../loads.ts";
import { moreModelName } from "../relay-catalog.ts";
import type { RelayTarget } from "../relay-target.ts";
import type { World } from "../world.ts";

/** What is grown, and what the relay is called with at each size of it. */
export type Dimension = {
  name: string;
  axis: string;
  sizes: number[];
  prepare: (site: Site, size: number) => Promise<PreparedLoad>;
};

/** Where it is grown; files of the bench are written into the folder. */
export type Site = { world: World; relay: RelayTarget; folder: string };

/** The load to measure, and what to end behind it. */
export type PreparedLoad = { load: Load; finish?: () => Promise<void> };

const callsPerMinute = 1_000_000;
const base = { ...smallLoad, windowMs: 1_200 };
const largeBodiesConnections = 16;

async function withSecrets({ relay, folder }: Site, accounts: number, keys: number): Promise<PreparedLoad> {
  const secrets = await relay.ledger.openAccounts({ accounts, keys, callsPerMinute });
  const secretsFile = join(folder, `secrets-${accounts}-${keys}`);
  await writeFile(secretsFile, secrets.join("\n"), { mode: 0o600 });
  return { load: { ...base, secretsFile } };
}

async function withStreams({ world, relay }: Site, wanted: number): Promise<PreparedLoad> {
  if (wanted === 0) return { load: base };
  const streams = Math.min(wanted, world.maxStreams - base.connections);
  const loading = await startLoad({ ...idleLoad("held streams", [streams]), isHeld: true }, relay, world.direct.port);
  await loading.opened;
  const finish = async (): Promise<void> => {
    await loading.release();
    const { errors, complaints, allCalls } = await loading.report;
    world.recorder.chargedCalls.whole += allCalls.whole;
    world.recorder.chargedCalls.broken += allCalls.broken;
    if (errors > 0) world.recorder.complaints.push(`${errors} of ${streams} held streams: ${complaints[0]}`);
  };
  return { load: base, finish };
}

/** Everything that is grown, one at a time. */
export const dimensions: Dimension[] = [
  {
    name: "connections",
    axis: "connections",
    sizes: [1, 4, 16, 64, 256, 1_024],
    prepare: (_, connections) => Promise.resolve({ load: { ...base, connections } }),
  },
  {
    name: "body",
    axis: "bytes of a request",
    sizes: [1_024, 8_192, 32_768, 131_072, 524_288, 1_048_576],
    prepare: (_, bytes) => Promise.resolve({ load: { ...base, bytes, connections: largeBodiesConnections } }),
  },
  {
    name: "keys",
    axis: "keys of one account",
    sizes: [1, 100, 1_000, 4_000],
    prepare: (site, keys) => withSecrets(site, 1, keys),
  },
  {
    name: "accounts",
    axis: "accounts",
    sizes: [1, 10, 100, 1_000],
    prepare: (site, accounts) => withSecrets(site, accounts, 1),
  },
  {
    name: "streams",
    axis: "open idle streams beside the calls",
    sizes: [0, 1_000, 4_000, 8_000],
    prepare: withStreams,
  },
  {
    name: "catalog",
    axis: "more models in the catalog",
    sizes: [1, 100, 1_000, 4_000],
    prepare: async ({ relay }, models) => {
      await relay.extendCatalog(models);
      return { load: { ...base, model: moreModelName(models - 1) } };
    },
  },
];
