import { createRid } from "#shared/money/rid.ts";
import { query } from "#shared/testing/postgres.ts";
import type { TaskState } from "../task.ts";

export type TaskFields = { rid?: string; account?: string; key?: string; contentUrl?: string; dialect?: string };

const extra: Record<TaskState, string> = {
  submitting: "lease_until = now() + interval '1 minute'",
  refused: "refusal = 3",
  unknown: "refusal = 6",
  queued: "next_look_at = now()",
  in_progress: "progress = 40, next_look_at = now()",
  completed: "ended_at = now(), progress = 100, expires_at = now() + interval '1 hour'",
  failed: "ended_at = now(), error_code = 'some_code', error_message = 'It failed.'",
};

/** Puts a submission in some state into a database, as its owner, and tells its rid. */
export async function putTask(ownerUrl: string, state: TaskState, given: TaskFields = {}): Promise<string> {
  const { rid = createRid(), account = "acct_test", key, contentUrl, dialect = "openai-videos" } = given;
  const text = (value: string | undefined): string => (value === undefined ? "NULL" : `'${value}'`);
  const fields: Record<string, string> = {
    rid: text(rid),
    account_id: text(account),
    state: text(state),
    idempotency_key: text(key),
    request_hash: "sha256('asked')",
    model: "'demo-video'",
    prompt: "'a cat'",
    seconds: "8",
    size: "'1280x720'",
    deadline_seconds: "600",
    charge: "'\\x1234'",
    upstream: "'first'",
    ...(["queued", "in_progress", "completed", "failed"].includes(state) && {
      dialect: text(dialect),
      upstream_id: text(`at_provider_${rid}`),
      cost_nanos: "800000000",
      accepted_at: "now()",
      content_url: text(contentUrl),
    }),
  };
  for (const assignment of extra[state].split(", ")) {
    const [name = "", value = ""] = assignment.split(" = ");
    fields[name] = value;
  }
  await query(
    ownerUrl,
    `INSERT INTO video_task.task (${Object.keys(fields).join(", ")}) VALUES (${Object.values(fields).join(", ")})`,
  );
  return rid;
}
