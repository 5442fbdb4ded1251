import type { MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { AuthQuotaService, ReportRefusalsRequestSchema } from "#proto/authquota/v1/authquota_pb.ts";
import type { UnaryClient } from "#shared/grpc/grpc.ts";
import type { Logger } from "#shared/process/log.ts";
import type { Caller, KeyOwner } from "../charge/admit.ts";
import { callOutcomeOf, type CallOutcome } from "./call-outcome.ts";
import type { Failure, FailureName } from "../failures.ts";

/** A call of a known key that was refused before it held money. */
export type Refusal = { rid: string; failure: Failure; status: number; endpoint: string };

/** Gathers what is refused, for the owners of the keys. */
export type Refusals = {
  /** Takes the same time and memory however many there are. */
  note: (owner: KeyOwner, refusal: Refusal) => void;
  /** Sends what was gathered since the last time. Never rejects: what auth-quota does not take is lost. */
  report: () => Promise<void>;
};

// What one report may have at most, so that a flood costs little here, on the way and where it is kept, and that of one
// account leaves room for others.
const maxKeys = 200;
const maxKeysOfAccount = 20;
const maxCallsOfKey = 20;
const maxCalls = 500;

const minuteMs = 60_000;

type Count = { reason: string; status: number; minuteMs: number; refusals: number };
type OfKey = { counts: Map<string, Count>; calls: Refusal[] };
type Gathered = { keys: Map<string, OfKey>; keysOfAccounts: Map<string, number>; calls: number };

const nothing = (): Gathered => ({ keys: new Map(), keysOfAccounts: new Map(), calls: 0 });

type Client = Pick<UnaryClient<typeof AuthQuotaService>, "reportRefusals">;

/** `onOmitted` is told of each refusal that no report has. */
export function createRefusals(
  client: Client,
  { onOmitted, log, nowMs = Date.now }: { onOmitted: (refusals: number) => void; log: Logger; nowMs?: () => number },
): Refusals {
  let gathered = nothing();
  let isFailing = false;
  return {
    note: (owner, refusal) => {
      const ofKey = gathered.keys.get(owner.keyId) ?? addKey(gathered, owner);
      if (ofKey) add(gathered, ofKey, { ...refusal, minuteMs: Math.floor(nowMs() / minuteMs) * minuteMs });
      else onOmitted(1);
    },
    report: async () => {
      if (gathered.keys.size === 0) return;
      const sent = gathered;
      gathered = nothing();
      try {
        await client.reportRefusals(reportOf(sent));
        isFailing = false;
      } catch (error) {
        // It may have been counted, so it is not sent again.
        onOmitted(sizeOf(sent));
        if (!isFailing) log.warn({ err: error }, "failed to report refused calls");
        isFailing = true;
      }
    },
  };
}

/** Undefined when there is no room for another key, or for another one of its account. */
function addKey({ keys, keysOfAccounts }: Gathered, { accountId, keyId }: KeyOwner): OfKey | undefined {
  const ofAccount = keysOfAccounts.get(accountId) ?? 0;
  if (keys.size === maxKeys || ofAccount === maxKeysOfAccount) return undefined;
  keysOfAccounts.set(accountId, ofAccount + 1);
  const ofKey: OfKey = { counts: new Map(), calls: [] };
  keys.set(keyId, ofKey);
  return ofKey;
}

function add(gathered: Gathered, { counts, calls }: OfKey, refusal: Refusal & { minuteMs: number }): void {
  const { failure, status, minuteMs: minute } = refusal;
  const reason = reasonOf(failure);
  const name = `${reason} ${status} ${minute}`;
  const count = counts.get(name);
  if (count) count.refusals += 1;
  else counts.set(name, { reason, status, minuteMs: minute, refusals: 1 });
  if (calls.length === maxCallsOfKey) calls.shift();
  else if (gathered.calls === maxCalls) return;
  else gathered.calls += 1;
  calls.push(refusal);
}

const reasonOf = ({ name, reason }: Failure): string => reason ?? name;

function sizeOf({ keys }: Gathered): number {
  let refusals = 0;
  for (const { counts } of keys.values()) for (const count of counts.values()) refusals += count.refusals;
  return refusals;
}

function reportOf({ keys }: Gathered): MessageInitShape<typeof ReportRefusalsRequestSchema> {
  const all = [...keys];
  return {
    counts: all.flatMap(([keyId, { counts }]) =>
      [...counts.values()].map(({ reason, status, minuteMs: minute, refusals }) => ({
        keyId,
        reason,
        status,
        refusals: BigInt(refusals),
        minute: timestampFromMs(minute),
      })),
    ),
    calls: all.flatMap(([keyId, { calls }]) => calls.map((refusal) => ({ ...callOf(refusal), keyId }))),
  };
}

// What a row's detail is: the model that was named, or words of our own about the request. That of any other may have
// parts of the request in it, and is not kept.
const details: Partial<Record<FailureName, "model" | "words">> = {
  model_unavailable: "model",
  balance: "model",
  key_limit: "model",
  account_rate: "model",
  wrong_endpoint: "words",
  field_required: "words",
  field_invalid: "words",
};

const maxCharacters = 200;

/** A name as catalogs have them: a prompt or a key in the wrong field is kept nowhere. */
const isModelName = (text: string): boolean => /^(?!sk-)[\w.:/@+-]{1,100}$/.test(text);

function callOf({ rid, failure, status, endpoint }: Refusal) {
  const { name, detail = "" } = failure;
  const reason = reasonOf(failure);
  const model = details[name] === "model" && isModelName(detail) ? detail : "";
  const words = details[name] === "words" ? detail.replaceAll(/\p{Cc}/gu, " ").slice(0, maxCharacters) : "";
  return { rid, reason, status, endpoint, model, detail: words };
}

/** Whether it is the caller who can do something about it. */
export const isOfCaller = (outcome: CallOutcome): boolean => outcome === "client_error" || outcome === "quota_denied";

/** Notes what was refused where no call is reported, if its caller is known and can do something about it. */
export function noteRefusal(
  refusals: Refusals | undefined,
  caller: Pick<Caller, "owner"> | undefined,
  refusal: Refusal,
): void {
  const outcome = callOutcomeOf({ failure: refusal.failure, end: "refused", status: refusal.status });
  if (caller?.owner && isOfCaller(outcome)) refusals?.note(caller.owner, refusal);
}
