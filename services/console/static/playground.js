// Shows the answer of the playground as it comes, below the conversation so far. Without this file the form is sent as
// any other and a page comes back that holds the conversation and ends with the answer and the form.
import { showCopyButton } from "./console.js";

const form = document.querySelector("form[data-playground]");
const conversation = document.getElementById("conversation");
const code = document.getElementById("turn-code");
const file = form?.querySelector("[data-picture] input[type=file]");
const longestSide = 1_024;
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

  const place = form.querySelector("[data-picture]");
  place.hidden = false;
  file.addEventListener("change", () => void take());

  /** Puts the picture that was chosen into the form. */
  async function take() {
    const [chosen] = file.files;
    send.disabled = true;
    try {
      form.elements.picture.value = chosen ? await smaller(chosen) : "";
    } catch {
      form.elements.picture.value = "";
      file.value = "";
      tell("This file is no picture that the browser can read.");
    }
    send.disabled = running !== undefined;
  }

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

/** A picture as JPEG, in a data URL, with no side longer than models look at. */
async function smaller(picture) {
  const bitmap = await createImageBitmap(picture);
  const scale = Math.min(1, longestSide / Math.max(bitmap.width, bitmap.height));
  const canvas = document.createElement("canvas");
  canvas.width = Math.max(1, Math.round(bitmap.width * scale));
  canvas.height = Math.max(1, Math.round(bitmap.height * scale));
  canvas.getContext("2d").drawImage(bitmap, 0, 0, canvas.width, canvas.height);
  return canvas.toDataURL("image/jpeg", 0.8);
}

async function show(signal) {
  const { elements } = form;
  const body = new URLSearchParams(new FormData(form));
  body.set("as", "lines");
  if (elements.conversation.value === "") conversation.replaceChildren();
  const response = await fetch(form.action, { method: "POST", body, signal });
  if (!response.headers.get("content-type")?.startsWith("application/x-ndjson")) return tell(whyNot(response));
  let sides = [];
  for await (const line of linesOf(response.body)) {
    if ("question" in line) {
      add(line.question);
      sides = [...conversation.lastElementChild.querySelectorAll("[data-side]")];
    }
    const side = sides[line.side] ?? conversation;
    if ("said" in line) side.querySelector(".written").append(line.said);
    if ("call" in line) side.append(callOf(line.call));
    if ("problem" in line) tell(line.problem, side);
    if ("figures" in line) side.insertAdjacentHTML("beforeend", line.figures);
    if ("code" in line) {
      add(line.note);
      code.innerHTML = line.code;
      for (const button of code.querySelectorAll("button[data-copy]")) showCopyButton(button);
      elements.conversation.value = line.conversation;
      if (!line.isKept) continue;
      elements.message.value = "";
      elements.picture.value = "";
      if (file) file.value = "";
    }
  }
}

/** Markup of the console, in which what people and models said is escaped. */
const add = (markup) => conversation.insertAdjacentHTML("beforeend", markup);

/** What a model calls, as text. */
function callOf(text) {
  const called = document.createElement("code");
  called.className = "written";
  called.textContent = text;
  const place = document.createElement("p");
  place.append("Tool call: ", called);
  return place;
}

function tell(problem, at = conversation) {
  const place = document.createElement("p");
  place.className = "problems";
  place.textContent = problem;
  at.append(place);
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
