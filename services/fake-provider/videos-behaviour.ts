import { type Static, Type } from "typebox";
import { Value } from "typebox/value";

const whole = (description: string, maximum: number) =>
  Type.Optional(Type.Integer({ minimum: 0, maximum, description }));
const flag = (description: string) => Type.Optional(Type.Boolean({ description }));

/** How the fake provider of videos treats a submission and the task that comes of it; everything is optional. */
const videoBehaviourSchema = Type.Object(
  {
    polls: whole("Polls that find the task running, before the one that finds its end; left out: 1.", 1_000_000),
    end: Type.Optional(Type.Enum(["completed", "failed", "filtered", "never"])),
    failureCode: Type.Optional(
      Type.String({ description: "Code of the failure; for Gemini the name of a google.rpc code." }),
    ),
    deliveredSeconds: whole("Length that the finished video claims (OpenAI only); left out: as asked.", 3_600),
    submit: Type.Optional(
      Type.Enum(
        ["accept", "accept-then-cut", "cut", "reject", "rate", "account", "unavailable", "error", "garbage", "slow"],
        {
          description:
            "What comes of a submission. Taken: accept, slow (answered after submitMs, 5,000 when left out), " +
            "accept-then-cut (no answer), garbage (the answer is no JSON). Not taken: cut (no answer), reject (400), " +
            "rate (429), account (401), unavailable (503), error (500).",
        },
      ),
    ),
    submitMs: whole("Wait before the answer to a submission; the task counts as taken before it.", 3_600_000),
    pollMs: whole("Wait before the answer to a poll.", 3_600_000),
    pollFaults: Type.Optional(
      Type.Array(Type.Integer({ minimum: 0, maximum: 599 }), {
        maxItems: 10_000,
        description: "Statuses that the first polls are answered with, in order; 0: the connection is cut.",
      }),
    ),
    backwards: flag("Says by turns in_progress and queued (OpenAI only)."),
    lost: flag("Knows of no such task when it is polled."),
    goneAfter: flag("Does not keep the files: they are not found once the task is completed."),
    bytes: Type.Optional(Type.Integer({ minimum: 32, description: "Size of the video file; left out: 65,536." })),
    redirect: Type.Optional(
      Type.Enum(["own", "other"], {
        description: "Files are behind a redirect: to an address that wants the credential too, or to another origin.",
      }),
    ),
  },
  { additionalProperties: false },
);

export type VideoBehaviour = Static<typeof videoBehaviourSchema>;

const mark = '{"video":';

/**
 * Reads a behaviour from a prompt: when its first line is `{"video":{…}}`, the value is it. Throws an Error that names
 * what is wrong with a behaviour, because a misspelt one must not pass as none.
 */
export function readVideoBehaviour(prompt: string): VideoBehaviour {
  if (!prompt.startsWith(mark)) return {};
  const { video } = JSON.parse(prompt.split("\n", 1)[0] ?? "") as { video: unknown };
  return checkVideoBehaviour(video);
}

/** Returns `behaviour` when it is one; else throws an Error that names the fields that are wrong. */
export function checkVideoBehaviour(behaviour: unknown): VideoBehaviour {
  if (Value.Check(videoBehaviourSchema, behaviour)) return behaviour;
  const problems = Value.Errors(videoBehaviourSchema, behaviour);
  throw new Error(problems.map(({ instancePath, message }) => `${instancePath || "behaviour"} ${message}`).join("; "));
}

/** A prompt that carries `behaviour`, with words after it. */
export function videoPrompt(behaviour: VideoBehaviour, words = "a tide pool at dawn"): string {
  return `${mark}${JSON.stringify(checkVideoBehaviour(behaviour))}}\n${words}`;
}
