import type { Units } from "#shared/money/pricing.ts";
import type { ToldUsage } from "../answer.ts";
import { addUnits, countOf, excess, lacksAny, member, noCounts, readCounts } from "../dialect.ts";
import { toldOfMedia } from "../openai-shared/told-media.ts";
import { readUsage as readChatUsage } from "../openai-shared/usage.ts";

const ownNames = { input: "input_tokens", output: "output_tokens" };
const chatNames = { input: "prompt_tokens", output: "completion_tokens" };

const lacksAll = (usage: unknown, { input, output }: typeof ownNames): boolean =>
  lacksAny(usage, [input]) && lacksAny(usage, [output]);

/** Reads the token counts that token-priced image models tell; text out is rare but is told apart. */
export const readUsage = (usage: unknown): Units | undefined => readCounts(readBuckets, usage);

function readBuckets(usage: unknown): Units | undefined {
  if (typeof usage !== "object" || usage === null) return undefined;
  const input = countOf(member(usage, "input_tokens"));
  const imageInputTokens = countOf(member(member(usage, "input_tokens_details"), "image_tokens"));
  const output = countOf(member(usage, "output_tokens"));
  const outputTokens = countOf(member(member(usage, "output_tokens_details"), "text_tokens"));
  return {
    inputTokens: excess(input, imageInputTokens),
    imageInputTokens,
    imageOutputTokens: excess(output, outputTokens),
    outputTokens,
  };
}

/** The same by the names of chat (OpenRouter), where output is pictures unless the details say what it is. */
function readByChatNames(usage: unknown): Units | undefined {
  const units = readChatUsage(usage);
  if (!units?.outputTokens || units.imageOutputTokens) return units;
  return { ...units, outputTokens: 0n, imageOutputTokens: units.outputTokens };
}

/** What `usage` of an answer tells; undefined where it has no counts of tokens, such as a cost alone. */
export function readTold(usage: unknown): ToldUsage | undefined {
  if (!lacksAll(usage, ownNames)) return toldOfMedia(usage, readUsage(usage), ownNames);
  return lacksAll(usage, chatNames) ? undefined : toldOfMedia(usage, readByChatNames(usage), chatNames);
}

/** What was told of the images of a stream so far, and the least output that one of them had. */
export type ImageCounts = { told: ToldUsage; leastOutput: bigint };

const outputOfImages = ({ imageOutputTokens = 0n, outputTokens = 0n }: Units): bigint =>
  imageOutputTokens + outputTokens;

/**
 * The same with what comes with one image more. OpenAI tells of each its own output, and of all the same input (openai
 * 7.59, `ImageGenCompletedEvent.Usage`: tokens "in the output image", "in the input prompt"). Counts that hold all that
 * was told before, and at least half an image more, are of all images.
 */
export function withImage(before: ImageCounts | undefined, told: ToldUsage): ImageCounts {
  const more = outputOfImages(told.units);
  if (!before || before.told.units === noCounts || told.units === noCounts) return { told, leastOutput: more };
  const leastOutput = more < before.leastOutput ? more : before.leastOutput;
  if (more >= outputOfImages(before.told.units) + leastOutput / 2n) return { told, leastOutput };
  const { imageOutputTokens = 0n, outputTokens = 0n } = before.told.units;
  const units = { ...told.units };
  addUnits(units, { imageOutputTokens, outputTokens });
  return { told: { ...told, units }, leastOutput };
}
