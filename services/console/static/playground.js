// Shows the answer of the playground as it comes, with the form left as it is. Without this file the form is sent as
// any other and a page comes back that ends with the answer.
const place = document.querySelector("[data-playground]");
const section = document.getElementById("live-answer");
if (place && section) listen(place.querySelector("form"), section, place.dataset.playground);

function listen(form, section, callsPath) {
  const said = section.querySelector("[data-said]");
  const call = section.querySelector("[data-call]");
  const cancel = section.querySelector("[data-cancel]");
  const send = form.querySelector("button");
  let running;
  cancel.addEventListener("click", () => running?.abort());
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (running) return;
    running = new AbortController();
    section.hidden = false;
    call.hidden = true;
    said.textContent = "";
    said.setAttribute("aria-busy", "true");
    cancel.hidden = false;
    send.disabled = true;
    try {
      await show(form, { signal: running.signal, said, call, callsPath });
    } catch {
      const why = running.signal.aborted ? "Cancelled." : "The console cannot be reached. Try again in a minute.";
      said.append(`\n\n[${why}]`);
    }
    running = undefined;
    cancel.hidden = true;
    send.disabled = false;
    said.removeAttribute("aria-busy");
  });
}

async function show(form, { signal, said, call, callsPath }) {
  const body = new URLSearchParams(new FormData(form));
  body.set("as", "text");
  const response = await fetch(form.action, { method: "POST", body, signal, headers: { accept: "text/plain" } });
  if (!response.headers.get("content-type")?.startsWith("text/plain")) {
    said.append(`[${whyNot(response)}]`);
    return;
  }
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let part = await reader.read(); !part.done; part = await reader.read()) said.append(part.value);
  const requestId = response.headers.get("x-request-id");
  if (!requestId) return;
  const link = call.querySelector("a");
  link.href = callsPath + encodeURIComponent(requestId);
  link.textContent = requestId;
  call.hidden = false;
}

/** Why a page came instead of an answer. */
function whyNot({ redirected, status }) {
  if (redirected) return "You are not signed in any more. Open the console in another tab and sign in.";
  if (status === 413) return "This is more text than one form may hold.";
  return `This was not possible (status ${status}). Reload the page and try again.`;
}
