import { timestampDate, type Timestamp } from "@bufbuild/protobuf/wkt";
import { TaskState, type Task } from "#proto/video/v1/video_pb.ts";
import { emptyState, figure, instant, nextPage, table } from "../../html/controls.ts";
import { html, type Markup } from "../../html/html.ts";
import type { Deps } from "../../deps.ts";
import { Problem } from "../../html/problem.ts";
import { accountRoute, get, page, type PageResponse, type AccountRequest, type Route } from "../../html/route.ts";

const pageSize = 20;
const shownPrompt = 80;
const taskIdPattern = /^video_[0-9a-f]{32}$/;

/** The video tasks of an account. */
export function videoRoutes(deps: Deps): Route[] {
  return [
    accountRoute(get("/videos"), "videos.view", (request) => list(deps, request)),
    accountRoute(get("/videos/:taskId"), "videos.view", (request) => show(deps, request)),
  ];
}

const videosPath = ({ accountId }: AccountRequest): string => `/accounts/${accountId}/videos`;

const noTasks = emptyState(
  "No video tasks here",
  "A video that is asked for by POST to /v1/videos shows up here at once, and with what became of it.",
);

async function list({ videoTask }: Deps, request: AccountRequest): Promise<PageResponse> {
  const afterTaskId = request.query("after");
  if (afterTaskId !== "" && !taskIdPattern.test(afterTaskId)) throw new Problem("not-found");
  const { tasks, hasMore } = await videoTask.listTasks({ accountId: request.accountId, afterTaskId, limit: pageSize });
  const head = ["Task", "Created", "Model", "State", "Progress", "Length", "Size", "Prompt"];
  const rows = tasks.map((task) => row(request, task));
  const last = hasMore ? tasks.at(-1) : undefined;
  return page(
    "Video tasks",
    html`${rows.length === 0 ? noTasks : table("Video tasks of this account, newest first", head, rows)}
    ${last && nextPage(`${videosPath(request)}?after=${last.taskId}`)}`,
  );
}

function row(request: AccountRequest, task: Task): Markup {
  const { taskId, createdAt, model, progress, seconds, size, prompt } = task;
  return html`<tr>
    <th scope="row"><a href="${videosPath(request)}/${taskId}">${taskId}</a></th>
    <td>${time(createdAt)}</td>
    <td>${model}</td>
    <td>${stateOf(task)}</td>
    <td>${progress} %</td>
    <td>${seconds} s</td>
    <td>${size}</td>
    <td>${shorten(prompt)}</td>
  </tr>`;
}

const stateWords: Partial<Record<TaskState, string>> = {
  [TaskState.QUEUED]: "waiting for the provider",
  [TaskState.IN_PROGRESS]: "being made",
  [TaskState.COMPLETED]: "done",
  [TaskState.FAILED]: "failed, the price is given back",
};

const stateOf = ({ state }: Task): string => stateWords[state] ?? "not known";

const time = (at: Timestamp | undefined): Markup | string => (at ? instant(timestampDate(at)) : "–");

function shorten(prompt: string): string {
  const characters = [...prompt];
  return characters.length > shownPrompt ? `${characters.slice(0, shownPrompt).join("")}…` : prompt;
}

async function show({ videoTask }: Deps, request: AccountRequest): Promise<PageResponse> {
  const taskId = request.parameters["taskId"] ?? "";
  if (!taskIdPattern.test(taskId)) throw new Problem("not-found");
  // Another account's task does not exist for this one: video-task says so.
  const { task } = await videoTask.getTask({ accountId: request.accountId, taskId });
  if (!task) throw new Problem("not-found");
  const { error } = task;
  return page(
    "Video task",
    html`<dl>
        ${figure("Task", html`<code>${task.taskId}</code>`)} ${figure("Model", task.model)}
        ${figure("State", stateOf(task))} ${figure("Progress", `${task.progress} %`)}
        ${figure("Length", `${task.seconds} s`)} ${figure("Size", task.size)} ${figure("Created", time(task.createdAt))}
        ${figure("Ended", time(task.completedAt))} ${task.expiresAt && figure("File kept until", time(task.expiresAt))}
        ${error && figure("Why it failed", `${error.message} (${error.code})`)}
        ${figure("Charge", html`<a href="${callPath(request, task)}">The call and what it cost</a>`)}
      </dl>
      <h2>Prompt</h2>
      <p class="written">${task.prompt}</p>
      <p><a href="${videosPath(request)}">All video tasks</a></p>`,
  );
}

/** A task's id is "video_" and the id of its call without dashes (video.proto). */
function callPath({ accountId }: AccountRequest, { taskId }: Task): string {
  const rid = taskId.replace(/^video_(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
  return `/accounts/${accountId}/calls/${rid}`;
}
