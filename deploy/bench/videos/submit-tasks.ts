import type { VideoTaskService } from "#proto/video/v1/video_pb.ts";
import type { UnaryClient } from "#shared/grpc/grpc.ts";
import { videoPrompt } from "#fake-provider/videos-behaviour.ts";
import { makeSubmission } from "../../../services/video-task/testing/submissions.ts";
import { inFlight } from "./in-flight.ts";

/** What was submitted: rids by how the provider will end them at the first poll, and refusals in words. */
export type Submissions = { completed: string[]; failed: string[]; refused: string[] };

/** How many submissions wait for an answer at once. */
export const submissionsInFlight = 64;

const ends = ["completed", "failed"] as const;
const prompts = { completed: videoPrompt({ polls: 0 }), failed: videoPrompt({ polls: 0, end: "failed" }) };

/** Submits `count` tasks of 8 seconds as relays do, every second one to fail, and adds them to `submissions`. */
export async function submitTasks(
  client: Pick<UnaryClient<typeof VideoTaskService>, "submit">,
  count: number,
  submissions: Submissions,
): Promise<void> {
  await inFlight(submissionsInFlight, count, async (index) => {
    const end = ends[index % ends.length] ?? "completed";
    const request = makeSubmission({ prompt: prompts[end] });
    const { outcome } = await client.submit(request);
    if (outcome.case === "accepted") submissions[end].push(request.charge?.rid ?? "");
    else submissions.refused.push(`a submission was answered with ${outcome.case}`);
  });
}
