import assert from "node:assert/strict";
import { test } from "node:test";
import { nginxConfig } from "./nginx-config.ts";

test("nginx is one process that keeps nothing back and keeps connections to the upstream", () => {
  const text = nginxConfig({ port: 7, upstreamPort: 8, folder: "/folder", files: 9 });
  const wanted = ["master_process off;", "proxy_buffering off;", "server 127.0.0.1:8; keepalive 1024;"];
  for (const part of [...wanted, "listen 127.0.0.1:7 ", "worker_rlimit_nofile 9;", "proxy_temp_path /folder/proxy;"])
    assert.ok(text.includes(part), part);
  assert.equal(text.split("{").length, text.split("}").length);
});
