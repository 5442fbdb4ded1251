import assert from "node:assert/strict";
import { test } from "node:test";
import { Registry } from "prom-client";
import { RelayService } from "#proto/relay/v1/relay_pb.ts";
import { ServiceError } from "../process/errors.ts";
import { grpcMetrics } from "./metrics.ts";
import { connectGrpc, serveGrpc, unaryClient, unaryHandlers } from "./grpc.ts";
import { createLog } from "../process/log.ts";
import { refusing } from "../testing/refusing.ts";
import { until } from "../testing/until.ts";

const log = createLog("test", "silent");

test("calls are measured by method and status, those that their callers leave too", async () => {
  const registry = new Registry();
  const answers = [
    async () => ({}),
    () => Promise.reject(new ServiceError("not_found", "no")),
    () => new Promise<never>(() => {}),
  ];
  const getState = async () => (await answers.shift()?.()) ?? {};
  const place = { host: "127.0.0.1", port: 0, drainMs: 0, interceptors: [grpcMetrics(registry)] };
  const handlers = { ...refusing(RelayService), getState };
  await using server = await serveGrpc([[RelayService, unaryHandlers(RelayService, handlers, log)]], place);
  using channel = connectGrpc(`127.0.0.1:${server.port}`);
  const relay = unaryClient(RelayService, channel, 5_000);
  await relay.getState({});
  await assert.rejects(relay.getState({}), { code: "not_found" });
  await assert.rejects(unaryClient(RelayService, channel, 50).getState({}));
  const counts = async (): Promise<string[]> => {
    const lines = (await registry.metrics()).split("\n");
    return lines.filter((line) => line.startsWith("grpc_server_duration_seconds_count"));
  };
  await until("all are counted", async () => (await counts()).length === 3);
  const of = (code: string) =>
    `grpc_server_duration_seconds_count{method="/relay.v1.RelayService/GetState",code="${code}"} 1`;
  const [ok, missing, left] = await counts();
  assert.deepEqual([ok, missing], [of("OK"), of("NOT_FOUND")]);
  assert.match(left ?? "", /code="(?:CANCELLED|DEADLINE_EXCEEDED)"\} 1$/);
});
