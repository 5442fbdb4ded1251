import assert from "node:assert/strict";
import { Agent } from "node:http";
import { setTimeout as pause } from "node:timers/promises";
import type { Browser } from "../../../services/console/testing/browser.ts";
import { LineKind } from "#proto/billing/v1/billing_pb.ts";
import { videoPrompt } from "#fake-provider/videos-behaviour.ts";
import { until } from "#shared/testing/until.ts";
import type { Service } from "../../tools/local/service.ts";
import { ask, chat } from "./ask.ts";
import { type CallLog, type CallPlan, callRelay, wordsOf } from "./caller.ts";
import { browserAt, type FleetName } from "./fleet.ts";
import { createRandom, type Random } from "./random.ts";
import { videoCost } from "./video-catalog.ts";
import { getVideo, type VideoObject } from "./videos.ts";
import type { Customer, World } from "./world.ts";

/** Says who is asked next; what stands before several replicas and hears first that one of them is to stop. */
export type Balancer = {
  take: (name: FleetName) => Service;
  leave: (service: Service) => void;
  join: (service: Service) => void;
};

/** Gives the replicas that have not left by turns. */
export function createBalancer(services: Record<FleetName, readonly Service[]>): Balancer {
  const away = new Set<Service>();
  let turn = 0;
  return {
    take: (name) => {
      const there = services[name].filter((service) => !away.has(service));
      turn += 1;
      const service = there[turn % there.length];
      if (!service) throw new Error(`no ${name} is left`);
      return service;
    },
    leave: (service) => void away.add(service),
    join: (service) => void away.delete(service),
  };
}

/** What is asked of the system, each a thing that a caller or a person does. */
export type CallPlans = {
  /** A call of the kind, which must be answered whole. */
  call: (kind: CallKind, number: number) => Promise<CallLog>;
  /** Submits a video, follows it to its end, which must be a good one, and gives its rid. */
  video: () => Promise<string>;
  /** Opens the pages of an account one by one; each must be there with what it shows. */
  pages: () => Promise<number>;
};

export const callKinds = ["whole", "streamed", "converted", "converted stream"] as const;
export type CallKind = (typeof callKinds)[number];

export type CallOptions = {
  balancer: Balancer;
  customers: readonly Customer[];
  videoCustomer: Customer;
  /** Signed in as an operator. */
  browser: Browser;
  random: Random;
};

/** Makes the ways to ask. They fail, or give what is not whole, when the system does not do what it is for. */
export function createAsks({ balancer, customers, videoCustomer, browser, random }: CallOptions): CallPlans {
  const agent = new Agent({ keepAlive: true });
  const { accountId, secret } = videoCustomer;
  const relayUrl = (): string => balancer.take("relay").url;
  const call = (kind: CallKind, number: number): Promise<CallLog> =>
    callRelay(planCall(kind, number, random.pick(customers), random), { url: relayUrl(), agent });
  const see = async (id: string): Promise<VideoObject | false> => {
    const video = (await getVideo({ relayUrl: relayUrl(), secret }, id)).json() as VideoObject;
    if (video.status === "failed") throw new Error(`${id} has failed`);
    return video.status === "completed" && video;
  };
  const video = async (): Promise<string> => {
    const body = JSON.stringify({ model: "sora-model", prompt: videoPrompt({ polls: 2 }) });
    const reply = await ask(`${relayUrl()}/v1/videos`, { headers: chat.headers(secret), body });
    if (reply.status !== 200) throw new Error(`a video was refused: ${reply.status} ${reply.text}`);
    await until("the video is there", () => see((reply.json() as VideoObject).id), 30_000);
    return reply.rid;
  };
  const paths = ["", "/usage", "/ledger", "/keys", "/videos", "/models"].map((path) => `/accounts/${accountId}${path}`);
  const pages = async (): Promise<number> => {
    for (const path of paths) {
      const service = balancer.take("console");
      const seen = await browserAt(service, browser).get(path);
      if (seen.status !== 200) throw new Error(`${path}: ${seen.status} ${seen.title}\n${await causeOf(service)}`);
    }
    return paths.length;
  };
  return { call, video, pages };
}

/** Waits until all is booked; every video is charged once, at its price, and nothing else is. */
export async function checkVideosMade(world: World, { accountId }: Customer, made: readonly string[]): Promise<void> {
  const lines = await world.untilSettled(accountId, made.length);
  const charged = -videoCost({ model: "sora-model", seconds: 4 });
  const wanted = made.map((rid) => `${rid} ${LineKind.CHARGE} ${charged}`);
  const found = lines.map(({ rid, kind, amountNanos }) => `${rid} ${kind} ${amountNanos}`);
  assert.deepEqual(found.toSorted(), wanted.toSorted());
}

const lineMs = 1_000;

/** What a console said of its last page that failed; its log comes on another way than its answers. */
async function causeOf({ lastLines }: Pick<Service, "lastLines">): Promise<string> {
  const said = () => lastLines().findLast((line) => line.includes('"request failed"'));
  const found = await until("the log says why", said, lineMs).catch(() => undefined);
  return found ?? lastLines().join("\n");
}

function planCall(kind: CallKind, number: number, { accountId, secret }: Customer, random: Random): CallPlan {
  const isStream = kind.includes("stream");
  const isConverted = kind.includes("converted");
  const words = random.between(3, 20);
  const behaviour = {
    text: wordsOf(words),
    headersAfterMs: random.between(20, 200),
    gapMs: random.between(0, 60),
    usage: { inputTokens: random.between(600, 3_000), outputTokens: words },
  };
  const model = isConverted ? "converted-model" : "cheap-model";
  const dialect = isConverted || random.chance(50) ? "chat" : "messages";
  return { number, accountId, secret, dialect, isStream, model, maxTokens: 100, behaviour, isSound: true };
}

/** Everything that was asked until now, and what went wrong, in words. */
export type Traffic = {
  calls: CallLog[];
  videos: string[];
  pages: () => number;
  failures: string[];
  /** Resolves when `count` more calls have ended. */
  more: (count: number) => Promise<void>;
  stop: () => Promise<void>;
};

// Whoever reads pages looks at them; this machine has the whole system to run.
const restMs = 150;

/** Asks without end, with `callers` who make calls and one each for videos and pages. */
export function startTraffic(asks: CallPlans, { callers, seed }: { callers: number; seed: number }): Traffic {
  const calls: CallLog[] = [];
  const videos: string[] = [];
  const failures: string[] = [];
  let [pages, number] = [0, 0];
  let isStopping = false;
  const again = async (work: () => Promise<void>): Promise<void> => {
    while (!isStopping) await work().catch((error: unknown) => failures.push(String(error)));
  };
  const caller = (index: number): Promise<void> => {
    const random = createRandom(seed + index);
    return again(async () => {
      number += 1;
      const log = await asks.call(random.pick(callKinds), number);
      calls.push(log);
      const { outcome, status, reason } = log;
      if (outcome !== "whole" || reason !== "")
        failures.push(`call ${log.plan.number}: ${outcome} ${status} ${reason}`);
    });
  };
  const all = [
    ...Array.from({ length: callers }, (_, index) => caller(index)),
    again(async () => {
      videos.push(await asks.video());
      await pause(restMs);
    }),
    again(async () => {
      pages += await asks.pages();
      await pause(restMs);
    }),
  ];
  return {
    calls,
    videos,
    failures,
    pages: () => pages,
    more: async (count) => {
      const wanted = calls.length + count;
      await until(`${count} more calls have ended`, () => calls.length >= wanted);
    },
    stop: async () => {
      isStopping = true;
      await Promise.all(all);
    },
  };
}
