import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { ScalarType, type DescField } from "@bufbuild/protobuf";
import { file_usage_v1_usage, UsageSchema } from "#proto/usage/v1/usage_pb.ts";
import { usageHeaders, usageStream, usageSubject } from "#shared/stores/usage-stream.ts";
import { findProgram } from "#shared/testing/binaries.ts";
import { repository, run } from "../../tools/checks/run.ts";
import { goldenBatches } from "./golden-events.ts";
import { readConfig, startNatsWithUsers } from "./stage.ts";
import { readParts, withTables } from "./tables.ts";

const folder = join(repository, "proto/usage");
const readme = readFileSync(join(folder, "README.md"), "utf8");
const contract = readFileSync(join(folder, "v1/usage.proto"), "utf8");
const grouped = (value: bigint): string => value.toLocaleString("en-US");

/** The cells of the rows whose first cell is code, by that name, in the table with this heading. */
function tableUnder(heading: string): Map<string, string> {
  const [, body = ""] = readme.split(`| ${heading} | value |`);
  const rows = body.split("\n\n")[0]?.matchAll(/^\| `([^`]+)` \| (?:`([^`]*)`)?/gm) ?? [];
  return new Map([...rows].map(([, name = "", value = ""]) => [name, value]));
}

const typeOf = (field: DescField): string => {
  if (field.fieldKind === "scalar") return ScalarType[field.scalar].toLowerCase();
  if (field.fieldKind === "enum") return field.enum.name;
  if (field.fieldKind === "message") return field.message.typeName.replace("usage.v1.", "");
  return `repeated ${field.fieldKind === "list" ? field.message?.name : ""}`;
};

test("the tables of fields are those of usage.proto; else run `npm run generate`", () => {
  assert.equal(withTables(readme, contract), readme);
});

test("the tables name every field and value of the contract, with its number and type", () => {
  const parts = new Map(readParts(contract).map(({ name, members }) => [name, members]));
  assert.equal(parts.size, file_usage_v1_usage.messages.length + file_usage_v1_usage.enums.length);
  for (const { name, fields } of file_usage_v1_usage.messages) {
    assert.deepEqual(
      parts.get(name)?.map(({ number, name: field, type }) => [number, field, type.replace("optional ", "")]),
      fields.map((field) => [field.number, field.name, typeOf(field)]),
    );
  }
  for (const { name, values } of file_usage_v1_usage.enums) {
    assert.deepEqual(
      parts.get(name)?.map(({ number, name: value }) => [number, value]),
      values.map((value) => [value.number, value.name]),
    );
  }
  for (const members of parts.values()) assert.ok(members.every(({ comment }) => comment !== ""));
});

test("the example of the formula is worked to the digit", () => {
  const [event] = goldenBatches.find(({ name }) => name === "cached-and-reasoning")?.events ?? [];
  assert.ok(event?.usage && event.unitPriceNanos);
  let sum = 0n;
  let apart = 0n;
  for (const { localName, name } of UsageSchema.fields) {
    const bucket = localName as "inputTokens";
    const [units, price] = [event.usage[bucket], event.unitPriceNanos[bucket]];
    if (units === 0n) continue;
    assert.ok(
      readme.includes(`| \`${name}\` | ${grouped(units)} | ${grouped(price)} | ${grouped(units * price)} |`),
      name,
    );
    sum += units * price;
    apart += (units * price + 999_999n) / 1_000_000n;
  }
  const usd = `0.${String(event.costNanos).padStart(9, "0")} USD`;
  for (const figure of [grouped(sum), grouped(event.costNanos), grouped(apart), usd]) {
    assert.ok(readme.includes(figure), figure);
  }
  assert.notEqual(apart, event.costNanos);
});

test("the headers are those that publishers send", () => {
  const made = usageHeaders("relay", "id", 0);
  const told = tableUnder("header");
  assert.deepEqual([...told.keys()], made.keys());
  for (const name of ["ce-specversion", "ce-source", "ce-type", "ce-dataschema", "ce-datacontenttype"]) {
    assert.ok(told.get(name)?.startsWith(made.get(name)), name);
  }
});

test("the consumer's settings are those of consumer.json", async () => {
  const config = Object.entries(await readConfig("consumer.json")).map(([name, value]) => [
    name,
    JSON.stringify(value),
  ]);
  assert.deepEqual(Object.fromEntries(tableUnder("setting")), Object.fromEntries(config));
});

test("the stream's settings are those that billing declares", async () => {
  await using nats = await startNatsWithUsers();
  const { config } = await nats.manager.streams.info(usageStream);
  const told = tableUnder(`setting of \`${usageStream}\``);
  assert.ok(told.size >= 6);
  for (const [name, value] of told) assert.equal(JSON.stringify(config[name as "name"]), value, name);
  assert.equal(usageSubject, "usage.v1.recorded");
});

test("links of the README lead to what is there", () => {
  const links = [...readme.matchAll(/\]\(([^)#:]+)(?:#[^)]*)?\)/g)].map(([, link = ""]) => link);
  assert.ok(links.length > 10);
  assert.deepEqual(
    links.filter((link) => !existsSync(join(folder, link))),
    [],
  );
});

const withoutJq = findProgram("jq") ? false : "jq is not on this machine";
test("the command for a schema registry makes the body that registries take", { skip: withoutJq }, async () => {
  const [, command = ""] = /```sh\n(jq .+) \|\n/.exec(readme) ?? [];
  const { code, output, errors } = await run("sh", ["-c", command], repository);
  assert.equal(code, 0, errors);
  assert.deepEqual(JSON.parse(output), { schemaType: "PROTOBUF", schema: contract });
});

test("nats-kafka reads the consumer that is declared for it, from the stream that there is", () => {
  const configuration = readFileSync(join(folder, "sinks/nats-kafka.conf"), "utf8");
  const set = new Map([...configuration.matchAll(/^ +(\w+): "([^"]+)"/gm)].map(([, name, value]) => [name, value]));
  const consumer = JSON.parse(readFileSync(join(folder, "sinks/nats-kafka.json"), "utf8")) as Record<string, unknown>;
  assert.deepEqual([set.get("stream"), set.get("subject")], [usageStream, usageSubject]);
  assert.deepEqual(
    [set.get("durablename"), set.get("queuename"), set.get("subject")],
    [consumer["durable_name"], consumer["deliver_group"], consumer["filter_subject"]],
  );
  assert.equal(consumer["max_deliver"], -1, "with a limit NATS stops to deliver a message, which is lost money");
});
