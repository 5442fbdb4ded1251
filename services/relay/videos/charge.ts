import type { MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { EndCause, RecordKind, UsageSource } from "#proto/usage/v1/usage_pb.ts";
import type { SubmitRequestSchema } from "#proto/video/v1/video_pb.ts";
import { costNanos, type Units } from "#shared/money/pricing.ts";
import { pricedFor, type Model } from "../catalog/models.ts";
import { pricesFor } from "../catalog/prices.ts";
import { orderVideoRoutes } from "../catalog/choose.ts";
import type { LiveCall } from "../live-call.ts";
import { pricedOnly } from "../charge/meter.ts";
import type { WantedVideo } from "./validate.ts";

/** A video with what it costs, all of which the request fixes. */
export type PricedVideo = {
  wanted: WantedVideo;
  /** The model at the prices of this size. */
  model: Model;
  /** The units that those prices speak of. */
  usage: Units;
  costNanos: bigint;
  priceFields: Record<string, string>;
};

const unitsOf = ({ seconds }: WantedVideo): Units => ({ mediaMs: BigInt(seconds) * 1_000n, requests: 1n });

const traitsOf = ({ size }: WantedVideo) => ({ fields: { size }, inputTokens: 0 });

/** What a video costs: its length, or the request, at the prices of its size. */
export function priceVideo(wanted: WantedVideo): PricedVideo {
  const model = pricedFor(wanted.model, () => traitsOf(wanted));
  const usage = pricedOnly(unitsOf(wanted), model.prices);
  return { wanted, model, usage, costNanos: costNanos(usage, model.prices), priceFields: { size: wanted.size } };
}

type SubmitInit = MessageInitShape<typeof SubmitRequestSchema>;

/** The charge as it will be should a provider take the video; the service adds which one, and when. */
function chargeOf({ model, usage, costNanos: cost }: PricedVideo, call: LiveCall): NonNullable<SubmitInit["charge"]> {
  return {
    rid: call.rid,
    kind: RecordKind.FINAL,
    accountId: call.accountId,
    keyId: call.keyId,
    endpoint: call.endpoint,
    modelRequested: model.id,
    usage,
    unitPriceNanos: model.prices,
    priceVersion: model.priceVersion,
    costNanos: cost,
    heldNanos: call.heldNanos,
    endCause: EndCause.COMPLETE,
    usageSource: UsageSource.REQUEST,
    startedAt: timestampFromMs(call.startedAtMs),
    httpStatus: 200,
  };
}

function routesOf({ wanted }: PricedVideo): NonNullable<SubmitInit["routes"]> {
  return orderVideoRoutes(wanted.model).map(({ upstream, model, cost }) => ({
    upstream: upstream.name,
    model,
    ...(cost && {
      upstreamCostNanos: costNanos(
        unitsOf(wanted),
        pricesFor(cost, () => traitsOf(wanted)),
      ),
    }),
  }));
}

/** What the service of videos is asked for. */
export function submitRequest(priced: PricedVideo, call: LiveCall): SubmitInit {
  const { prompt, seconds, size, reference, idempotencyKey, requestHash, deadlineSeconds } = priced.wanted;
  return {
    charge: chargeOf(priced, call),
    routes: routesOf(priced),
    prompt,
    seconds,
    size,
    ...(reference && { reference }),
    idempotencyKey,
    requestHash,
    deadlineSeconds,
    holdSecret: call.holdSecret,
  };
}
