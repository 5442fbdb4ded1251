import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { flatNameOf, nameTools, ownNameOf, type OwnName } from "./tool-names.ts";

const group = (namespace: string, ...names: string[]): object => ({
  type: "namespace",
  name: namespace,
  tools: names.map((name) => ({ type: "function", name })),
});

test("a namespaced tool is called by both names, and by its own elsewhere", () => {
  const names = nameTools([{ type: "function", name: "look" }, group("multi_agent_v1", "wait")]);
  assert.equal(flatNameOf(names, { namespace: "multi_agent_v1", name: "wait" }), "multi_agent_v1__wait");
  assert.deepEqual(ownNameOf(names, "multi_agent_v1__wait"), { namespace: "multi_agent_v1", name: "wait" });
  assert.equal(flatNameOf(names, { name: "look" }), "look");
  assert.deepEqual(ownNameOf(names, "look"), { name: "look" });
  assert.deepEqual(ownNameOf(names, "unknown"), { name: "unknown" });
});

test("names that would meet are told apart, the same way each time", () => {
  const tools = [{ type: "function", name: "a__b__c" }, group("a", "b__c"), group("a__b", "c")];
  const flat = () => {
    const names = nameTools(tools);
    return [flatNameOf(names, { namespace: "a", name: "b__c" }), flatNameOf(names, { namespace: "a__b", name: "c" })];
  };
  const [one = "", other = ""] = flat();
  assert.equal(new Set([one, other, "a__b__c"]).size, 3);
  assert.deepEqual(flat(), [one, other]);
});

test("whatever a request declares, flat names are unique, keep the providers' rules and lead back", () => {
  const part = fc.oneof(
    fc.string({ minLength: 1, maxLength: 90, unit: "grapheme" }),
    fc.constantFrom("a", "_", "a_", "b__"),
  );
  const own: fc.Arbitrary<Required<OwnName>> = fc.record({ namespace: part, name: part }, { noNullPrototype: true });
  const check = fc.property(fc.array(own, { maxLength: 12 }), fc.array(part, { maxLength: 4 }), (grouped, plain) => {
    const functions = plain.map((name) => ({ type: "function", name }));
    const tools = [...grouped.map(({ namespace, name }) => group(namespace, name)), ...functions];
    const names = nameTools(tools);
    const flat = new Map(grouped.map((tool) => [JSON.stringify([tool.namespace, tool.name]), flatNameOf(names, tool)]));
    assert.equal(new Set([...flat.values(), ...plain]).size, flat.size + new Set(plain).size);
    for (const tool of grouped) {
      const name = flatNameOf(names, tool);
      assert.match(name, /^[A-Za-z0-9_-]{1,64}$/);
      assert.deepEqual(ownNameOf(names, name), tool);
    }
  });
  fc.assert(check, { numRuns: 300 });
});

test("tools that are none name nothing", () => {
  for (const tools of [
    undefined,
    null,
    "x",
    [null, 7, { type: "namespace" }, { type: "namespace", name: "n", tools: [{}] }],
  ]) {
    assert.equal(nameTools(tools).ownNames.size, 0);
  }
});

test("a name of megabytes is refused before it is joined with each tool of its group", () => {
  const toolsOf = (length: number): object[] => [
    { type: "namespace", name: "n".repeat(length), tools: [{ type: "function", name: "a" }] },
  ];
  assert.equal(nameTools(toolsOf(512)).ownNames.size, 1);
  assert.throws(() => nameTools(toolsOf(513)), /must have at most 512 characters/);
  assert.throws(() => flatNameOf(nameTools([]), { namespace: "n", name: "a".repeat(513) }), /at most 512 characters/);
});

test("more tools in namespaces than are read are refused before a choice looks them up", () => {
  const tools = Array.from({ length: 1_025 }, (_, at) => ({ type: "function", name: `t${at}` }));
  assert.throws(() => nameTools([{ type: "namespace", name: "n", tools }]), /field tools must have at most 1024 items/);
});
