import assert from "node:assert/strict";
import { once } from "node:events";
import { test } from "node:test";
import { WebSocket, WebSocketServer } from "ws";
import type { AddressInfo } from "node:net";
import type { Socket } from "node:net";
import { textFrames } from "./text-frames.ts";

test("a client reads texts of any length as they were", async () => {
  const texts = ["", "é", "x".repeat(125), "x".repeat(126), "x".repeat(65_535), "é".repeat(40_000), "{}"];
  const server = new WebSocketServer({ port: 0, host: "127.0.0.1" });
  server.on("connection", (webSocket, request) => {
    (request.socket as Socket).write(textFrames(texts));
    webSocket.close();
  });
  await once(server, "listening");
  const client = new WebSocket(`ws://127.0.0.1:${(server.address() as AddressInfo).port}`);
  const read: string[] = [];
  client.on("message", (data) => void read.push((data as Buffer).toString()));
  await once(client, "close");
  server.close();
  assert.deepEqual(read, texts);
});
