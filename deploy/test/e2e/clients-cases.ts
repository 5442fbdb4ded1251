import assert from "node:assert/strict";
import type { Behaviour } from "#fake-provider/behaviour.ts";
import { until } from "#shared/testing/until.ts";
import { answeredWith, isBetweenTries, withoutWaiting } from "./retries.ts";
import type { World } from "./world.ts";

/** A call that must fail, whoever makes it. */
export type FailingCase = {
  what: string;
  /** What the caller must see. */
  status: number;
  /** `error.type` of Format B; in Format A it is `api_error` or the upstream's own. */
  type: string;
  model: string;
  behaviour: Behaviour;
  /** Makes a key for which the call fails; gives the key and the relay's base address. */
  prepare: (world: World) => Promise<{ secret: string; baseUrl: string }>;
};

type Row = Pick<FailingCase, "what" | "status" | "type"> & Partial<FailingCase>;

const prepareCustomer: FailingCase["prepare"] = async (world) => {
  const { secret } = await world.createCustomer();
  return { secret, baseUrl: world.relayUrl };
};

const rows: Row[] = [
  { what: "an upstream's 400", status: 400, type: "invalid_request_error", behaviour: { status: 400 } },
  {
    what: "a wrong key",
    status: 401,
    type: "authentication_error",
    prepare: async ({ relayUrl }) => ({ secret: "sk-wrong", baseUrl: relayUrl }),
  },
  {
    what: "no money",
    status: 403,
    type: "permission_error",
    prepare: async (world) => {
      const { secret } = await world.createCustomer({ creditNanos: 1_000n });
      return { secret, baseUrl: world.relayUrl };
    },
  },
  {
    what: "/v1 twice",
    status: 404,
    type: "not_found_error",
    prepare: async (world) => {
      const { secret, baseUrl } = await prepareCustomer(world);
      return { secret, baseUrl: `${baseUrl}/v1` };
    },
  },
  { what: "an upstream's 429", status: 429, type: "rate_limit_error", behaviour: { status: 429 } },
  { what: "an upstream's 500", status: 500, type: "api_error", behaviour: { status: 500 } },
  { what: "an upstream's 503", status: 503, type: "api_error", behaviour: { status: 503 } },
  { what: "a wrong model ID", status: 503, type: "api_error", model: "no-such-model" },
];

const overloaded: Row = {
  what: "an overloaded upstream",
  status: 529,
  type: "overloaded_error",
  behaviour: { status: 529 },
};

/** The statuses that callers must be able to tell apart, for clients of one of the API spec's formats. */
export function failingCases(format: "A" | "B"): FailingCase[] {
  const all = format === "A" ? rows : [...rows, overloaded];
  return all.map((row) => ({ model: "test-model", behaviour: {}, prepare: prepareCustomer, ...row }));
}

/** How often the relay was called, and how long the client would have waited between. */
export type Tries = { calls: number; waitsMs: number[] };

/** Runs a call that is answered with `status` at every try, `calls` times; tells how it went, without waiting. */
export async function countTries(
  { stack }: World,
  { status, calls, isWait = isBetweenTries }: { status: number; calls: number; isWait?: (delayMs: number) => boolean },
  call: () => Promise<unknown>,
): Promise<Tries> {
  const opsUrl = stack.addresses.opsUrls.relay;
  const before = await answeredWith(opsUrl, status);
  const { waitsMs } = await withoutWaiting(isWait, () => assert.rejects(call()));
  // A call is counted just after its answer went out.
  const counted = await until(`${calls} answers of ${status}`, async () => {
    const answered = (await answeredWith(opsUrl, status)) - before;
    return answered >= calls && answered;
  });
  return { calls: Number(counted), waitsMs };
}

/** A picture of one red pixel. */
export const pixelBase64 =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC";

/** A tool that the fake upstream can be told to call. */
export const weather = { name: "get_weather", arguments: { city: "New York City" } };

/** What the tool gives back. */
export const warm = "It is warm.";

export const weatherSchema = {
  type: "object" as const,
  properties: { city: { type: "string" as const } },
  required: ["city"],
};
