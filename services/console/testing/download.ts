import type { Browser } from "./browser.ts";
import type { World } from "./console.ts";

/** A file as it came, byte by byte; `signal` is the browser that leaves. */
export function download(world: World, { cookies }: Browser, path: string, signal?: AbortSignal): Promise<Response> {
  const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join("; ");
  return fetch(`http://127.0.0.1:${world.app.httpPort}${path}`, {
    redirect: "manual",
    headers: { cookie, "x-forwarded-proto": "https" },
    ...(signal && { signal }),
  });
}
