// Shows the answer of the playground as it comes, below the conversation so far. Without this file the form is sent as
// any other and a page comes back that holds the conversation and ends with the answer and the form.
import { showCopyButton } from "./console.js";

const form = document.querySelector("form[data-playground]");
const conversation = document.getElementById("conversation");
const code = document.getElementById("turn-code");
if (form && conversation && code) listen();

function listen() {
  const cancel = form.querySelector("[data-cancel]");
  const send = form.querySelector("button");
  let running;
  cancel.addEventListener("click", () => running?.abort());
  form.addEventListener("submit", (event) => {
    if (event.submitter?.name === "clear") {
      running?.abort();
      return;
    }
    event.preventDefault();
    if (!running) void ask();
  });

  async function ask() {
    running = new AbortController();
    conversation.setAttribute("aria-busy", "true");
    cancel.hidden = false;
    send.disabled = true;
    try {
      await show(running.signal);
    } catch {
      const isCancelled = running.signal.aborted;
      tell(isCancelled ? "Cancelled." : "The console cannot be reached. Try again in a minute.");
    }
    running = undefined;
    cancel.hidden = true;
    send.disabled = false;
    conversation.removeAttribute("aria-busy");
  }
}

async function show(signal) {
  const { elements } = form;
  const body = new URLSearchParams(new FormData(form));
  body.set("as", "lines");
  if (elements.conversation.value === "") conversation.replaceChildren();
  const response = await fetch(form.action, { method: "POST", body, signal });
  if (!response.headers.get("content-type")?.startsWith("application/x-ndjson")) return tell(whyNot(response));
  let said;
  for await (const line of linesOf(response.body)) {
    if ("question" in line) {
      add(line.question);
      said = document.createElement("div");
      said.className = "written";
      conversation.append(said);
    }
    if ("said" in line) said.append(line.said);
    if ("problem" in line) tell(line.problem);
    if ("figures" in line) {
      add(line.figures);
      code.innerHTML = line.code;
      for (const button of code.querySelectorAll("button[data-copy]")) showCopyButton(button);
      elements.conversation.value = line.conversation;
      if (line.isKept) elements.message.value = "";
    }
  }
}

/** Markup of the console, in which what people and models said is escaped. */
const add = (markup) => conversation.insertAdjacentHTML("beforeend", markup);

function tell(problem) {
  const place = document.createElement("p");
  place.className = "problems";
  place.textContent = problem;
  conversation.append(place);
}

async function* linesOf(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    const lines = (rest + part.value).split("\n");
    rest = lines.pop();
    for (const line of lines) yield JSON.parse(line);
  }
}

/** Why a page came instead of an answer. */
function whyNot({ redirected, status }) {
  if (redirected) return "You are not signed in any more. Open the console in another tab and sign in.";
  if (status === 413) return "This is more text than one form may hold.";
  return `This was not possible (status ${status}). Reload the page and try again.`;
}
