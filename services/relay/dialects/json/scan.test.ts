import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { RequestError } from "../request-error.ts";
import { JsonScanError, ManyValuesError, readField, rewriteFields, scanJson, type Scan } from "./scan.ts";

type Entry = [name: string, value: unknown];

const awkwardNames = [
  "__proto__",
  "constructor",
  "toString",
  "model",
  "messages",
  "é",
  "",
  'a"b',
  "a\\",
  "{",
  "\u0000",
];
const names = fc.oneof(fc.constantFrom(...awkwardNames), fc.string({ unit: "binary", maxLength: 6 }));
const values = fc.oneof(fc.jsonValue({ maxDepth: 4, stringUnit: "binary" }), fc.constantFrom<unknown>("\\", '"', "]}"));
const entries: fc.Arbitrary<Entry[]> = fc.uniqueArray(fc.tuple(names, values), { selector: ([name]) => name });
const spaces = fc.array(fc.constantFrom("", " ", "\n", "\t\t", "\r\n ", "\r"), { minLength: 1, maxLength: 7 });

/** Writes strings character by character, some as escapes, and with space wherever JSON allows it. */
function createSpelling(gaps: string[], escapesEvery: number) {
  let used = 0;
  const gap = (): string => gaps[used++ % gaps.length] ?? "";
  const spellString = (text: string): string => {
    if (escapesEvery === 0) return JSON.stringify(text);
    const units = Array.from({ length: text.length }, (_, at) => {
      const isEscaped = at % escapesEvery === 0;
      const unit = text.charCodeAt(at);
      const isPlain = unit >= 0x20 && unit < 0x7f && unit !== 0x22 && unit !== 0x5c;
      return isPlain && !isEscaped ? text.charAt(at) : `\\u${unit.toString(16).padStart(4, "0")}`;
    });
    return `"${units.join("")}"`;
  };
  const pair = ([name, value]: Entry): string => `${gap()}${spellString(name)}${gap()}:${spell(value)}`;
  const spell = (value: unknown): string => {
    let text = JSON.stringify(value);
    if (typeof value === "string") text = spellString(value);
    else if (Array.isArray(value)) text = `[${value.length === 0 ? gap() : value.map(spell).join(",")}]`;
    else if (typeof value === "object" && value !== null) text = spellObject(Object.entries(value));
    return `${gap()}${text}${gap()}`;
  };
  const spellObject = (fields: Entry[]): string => `{${fields.length === 0 ? gap() : fields.map(pair).join(",")}}`;
  return (fields: Entry[]): Buffer => Buffer.from(`${gap()}${spellObject(fields)}${gap()}`);
}

const spellings = fc.tuple(spaces, fc.constantFrom(0, 1, 2, 3)).map(([gaps, every]) => createSpelling(gaps, every));
const plain = createSpelling([""], 0);

/** Every field as its name and the bytes of its value, in order. */
function fieldTexts(body: Buffer, scan: Scan): [string, string][] {
  return [...scan.fields].map(([name, { start, end }]) => [name, body.toString("latin1", start, end)]);
}

function parsesAsObject(body: Buffer): boolean {
  try {
    const value: unknown = JSON.parse(body.toString());
    return typeof value === "object" && value !== null && !Array.isArray(value);
  } catch {
    return false;
  }
}

type Outcome = "accepted" | "refused" | "stands twice";

function scanOutcome(body: Buffer): Outcome {
  try {
    scanJson(body);
    return "accepted";
  } catch (error) {
    assert.ok(error instanceof JsonScanError, `only a JsonScanError may come out, not ${String(error)}`);
    return error.message.endsWith("stands twice") ? "stands twice" : "refused";
  }
}

test("any JSON object in any spelling is accepted and every field reads as JSON.parse reads it", () => {
  fc.assert(
    fc.property(entries, spellings, (fields, spell) => {
      const body = spell(fields);
      const scan = scanJson(body);
      assert.deepEqual(
        [...scan.fields.keys()],
        fields.map(([name]) => name),
      );
      for (const [name, value] of fields) {
        assert.deepEqual(readField(body, scan, name), JSON.parse(JSON.stringify(value)));
      }
      for (const [name, text] of fieldTexts(body, scan)) {
        assert.ok(!/^[ \t\r\n]|[ \t\r\n]$/.test(text), `${name}: a field is its value without the space around it`);
      }
      assert.equal(readField(body, scan, "a name that is not there"), undefined);
    }),
    { numRuns: 500 },
  );
});

test("over mutated bytes it accepts what JSON.parse accepts", () => {
  const alphabet = Array.from('{}[]:,"\\ \n0123456789.-+eEtruefalsn/x\u0000é', (character) => Buffer.from(character));
  const mutation = fc.record({
    at: fc.nat(),
    cut: fc.nat({ max: 3 }),
    insert: fc.array(fc.constantFrom(...alphabet), { maxLength: 2 }),
  });
  const seen = { accepted: 0, refused: 0, "stands twice": 0 };
  fc.assert(
    fc.property(entries, spellings, fc.array(mutation, { minLength: 1, maxLength: 2 }), (fields, spell, mutations) => {
      let body = spell(fields);
      for (const { at, cut, insert } of mutations) {
        const from = at % (body.length + 1);
        body = Buffer.concat([body.subarray(0, from), ...insert, body.subarray(from + cut)]);
      }
      const outcome = scanOutcome(body);
      seen[outcome] += 1;
      // Invalid UTF-8 reads as U+FFFD in both.
      if (outcome === "accepted") assert.ok(parsesAsObject(body), body.toString());
      if (outcome === "refused") assert.equal(parsesAsObject(body), false, body.toString());
    }),
    { numRuns: 3_000 },
  );
  assert.ok(seen.accepted > 100 && seen.refused > 100, `the mutations reach both outcomes: ${JSON.stringify(seen)}`);
});

test("a long string is read to its end, and refused where JSON.parse refuses it, wherever it lies in memory", () => {
  const unit = fc.constantFrom("a", " !#[]~", "\u007f", "é", "日", "😀", "a".repeat(40), "é".repeat(20));
  const special = fc.constantFrom(
    "",
    "\\n",
    '\\"',
    "\\\\",
    "\\u00e9",
    '"',
    "\\",
    "\\x",
    "\\u00g0",
    "\u0000",
    "\u001f",
    "\n",
  );
  const texts = fc.tuple(fc.array(unit, { maxLength: 40 }), special, fc.array(unit, { maxLength: 40 }), special);
  const seen = { accepted: 0, refused: 0, "stands twice": 0 };
  fc.assert(
    fc.property(texts, fc.nat({ max: 7 }), ([before, one, after, other], offset) => {
      const text = `${before.join("")}${one}${after.join("")}${other}`;
      const body = Buffer.from(`{"a":"${text}","b":1}`);
      const placed = Buffer.concat([Buffer.alloc(offset, '"'), body, Buffer.alloc(20, '"')]).subarray(offset, -20);
      const outcome = scanOutcome(placed);
      seen[outcome] += 1;
      assert.equal(outcome === "accepted", parsesAsObject(body), body.toString());
      if (outcome === "accepted") assert.equal(readField(placed, scanJson(placed), "b"), 1);
    }),
    { numRuns: 3_000 },
  );
  assert.ok(seen.accepted > 100 && seen.refused > 100, `both outcomes are reached: ${JSON.stringify(seen)}`);
});

test("a string with escapes may be of any length, and is refused for what is wrong far behind its beginning", () => {
  for (const length of [900, 1_100, 5_000, 70_000, 200_000]) {
    for (let shift = 0; shift < 9; shift += 1) {
      const text = "a".repeat(shift) + "\\u00e9b\\n".repeat(length / 9);
      for (const [end, outcome] of [
        ["", "accepted"],
        ["\\", "refused"],
        ["\\u00e", "refused"],
        ["\u0001", "refused"],
      ] as const) {
        const body = Buffer.from(`{"a":"${text}${end}","b":"\\n"}`);
        assert.equal(scanOutcome(body), outcome, `${body.length} bytes, shifted by ${shift}, with ${end}`);
      }
      const whole = Buffer.from(`{"a":"${text}","b":1}`);
      assert.equal(readField(whole, scanJson(whole), "b"), 1);
    }
  }
});

test("every byte that may not stand in a string is found at every place of a long one", () => {
  const pads = [0, 1, 2, 3, 40, 77];
  for (let byte = 0; byte < 256; byte += 1) {
    for (let at = 0; at < 100; at += 1) {
      const body = Buffer.from(`{"a":"${"x".repeat(100 + (pads[at % pads.length] ?? 0))}"}`);
      body[6 + at] = byte;
      assert.equal(scanOutcome(body) === "accepted", parsesAsObject(body), `byte ${byte} at ${at}`);
    }
  }
});

test("every truncation of a body is refused", () => {
  const body = Buffer.from(' {"model": "m", "n": -1.5e+3, "messages": [{"content": "\\"é"}, [], {}, true, null]}');
  scanJson(body);
  for (let length = 0; length < body.length; length += 1) {
    assert.equal(scanOutcome(body.subarray(0, length)), "refused", `${length} bytes`);
  }
});

const malformed = [
  ["a missing comma between fields", '{"a":1 "b":2}'],
  ["a missing comma between items", '{"a":[1 2]}'],
  ["a missing colon", '{"a" 1}'],
  ["a trailing comma in the object", '{"a":1,}'],
  ["a trailing comma in an inner object", '{"a":{"b":1,}}'],
  ["a trailing comma in an array", '{"a":[1,]}'],
  ["a leading comma", '{,"a":1}'],
  ["trailing garbage", '{"a":1}x'],
  ["a second value", '{"a":1}{"b":2}'],
  ["a bracket closed by another", '{"a":[1}]'],
  ["a brace closed by a bracket", '{"a":{"b":1]}'],
  ["one bracket too many", '{"a":[1]]}'],
  ["one brace too few", '{"a":{"b":1}'],
  ["an unquoted name", "{a:1}"],
  ["a single-quoted string", "{'a':1}"],
  ["a word that does not exist", '{"a":undefined}'],
  ["a word with a tail", '{"a":truex}'],
  ["a word with a capital", '{"a":True}'],
  ["NaN", '{"a":NaN}'],
  ["a leading zero", '{"a":01}'],
  ["a leading plus", '{"a":+1}'],
  ["a number without a whole part", '{"a":.5}'],
  ["a number without decimals behind its point", '{"a":1.}'],
  ["an exponent without digits", '{"a":1e}'],
  ["a lone minus", '{"a":-}'],
  ["hexadecimal", '{"a":0x10}'],
  ["a comment", '{"a":1/**/}'],
  ["a byte order mark", '\u{feff}{"a":1}'],
  ["a no-break space", '{"a":\u{a0}1}'],
  ["a string without an end", '{"a":"b\\"}'],
  ["a name with an unknown escape", '{"\\q":1}'],
  ["an array", '[{"a":1}]'],
  ["a string", '"a"'],
  ["null", "null"],
  ["nothing", ""],
  ["spaces", " \n"],
] as const;

for (const [what, text] of malformed) {
  test(`API spec, Cases: Body not valid JSON: ${what} is refused`, () => {
    assert.equal(scanOutcome(Buffer.from(text)), "refused");
    assert.equal(parsesAsObject(Buffer.from(text)), false, "JSON.parse agrees");
  });
}

test("a top-level field that stands twice is refused in whatever spelling, because the upstream might obey the other", () => {
  for (const text of ['{"model":"a","model":"b"}', '{"model":"a","x":1,"mod\\u0065l":"b"}', '{"é":1,"\\u00e9":2}']) {
    assert.equal(scanOutcome(Buffer.from(text)), "stands twice", text);
  }
  // Raw "é" is two bytes; escapes of those two characters are another name.
  assert.equal(scanOutcome(Buffer.from('{"é":1,"\\u00c3\\u00a9":2}')), "accepted");
  assert.equal(scanOutcome(Buffer.from('{"a":{"b":1,"b":2}}')), "accepted", "inside it is the upstream's to judge");
});

test("a name in escapes is the name that it spells", () => {
  const body = Buffer.from('{"mod\\u0065l":"m","\\u0073tream":true}');
  const scan = scanJson(body);
  assert.equal(readField(body, scan, "model"), "m");
  assert.equal(readField(body, scan, "stream"), true);
});

test("__proto__, constructor and toString are names like any other, to read and to rewrite", () => {
  const body = Buffer.from('{"__proto__":{"polluted":1},"constructor":2,"toString":3,"model":"m"}');
  const scan = scanJson(body);
  assert.deepEqual([...scan.fields.keys()], ["__proto__", "constructor", "toString", "model"]);
  assert.equal(readField(body, scan, "constructor"), 2);
  assert.equal(readField(body, scan, "valueOf"), undefined);
  assert.equal(({} as Record<string, unknown>)["polluted"], undefined);
  assert.equal(
    rewriteFields(body, scan, { replace: { model: '"n"' } }).toString(),
    '{"__proto__":{"polluted":1},"constructor":2,"toString":3,"model":"n"}',
  );
});

const nested = (levels: number): Buffer => Buffer.from(`{"a":${"[".repeat(levels)}${"]".repeat(levels)}}`);

test("256 levels below the top are accepted, 257 refused, and millions exhaust no stack", () => {
  assert.equal(scanOutcome(nested(256)), "accepted");
  assert.equal(scanOutcome(nested(257)), "refused");
  assert.equal(scanOutcome(nested(2_000_000)), "refused");
  assert.equal(scanOutcome(Buffer.from(`{"a":${'{"b":'.repeat(2_000_000)}`)), "refused");
});

const limitRows: [string, string, string, RegExp][] = [
  [
    "500,000 values",
    `{"a":[${"[],".repeat(499_998)}[]]}`,
    `{"a":[${"[],".repeat(499_999)}[]]}`,
    /at most 500000 JSON values/,
  ],
  [
    "1,000 fields",
    JSON.stringify(Object.fromEntries(Array.from({ length: 1_000 }, (_, at) => [`a${at}`, 1]))),
    JSON.stringify(Object.fromEntries(Array.from({ length: 1_001 }, (_, at) => [`a${at}`, 1]))),
    /at most 1000 fields/,
  ],
  [
    "a name of 254 characters with its quotes",
    JSON.stringify({ ["a".repeat(254)]: 1 }),
    JSON.stringify({ ["a".repeat(255)]: 1 }),
    /names of fields must have at most 256 bytes/,
  ],
];
for (const [what, most, more, refusal] of limitRows) {
  test(`a body may have ${what} and no more: what reads it takes memory for each`, () => {
    scanJson(Buffer.from(most));
    assert.throws(() => scanJson(Buffer.from(more)), { constructor: RequestError, message: refusal });
  });
}

for (const [what, text] of [
  ["a line break within", '{"model":"a\nb"}'],
  ["an unknown escape", '{"model":"\\q"}'],
  ["half a unicode escape", '{"messages":[{"content":"\\u12"}]}'],
  ["a control character in a nested key", '{"messages":[{"con\u0001tent":"x"}]}'],
  ["an unknown escape deep in a long text", `{"messages":["${"long ".repeat(50)}\\x"]}`],
] as const) {
  test(`a string that is no JSON string is refused wherever it stands: ${what}`, () => {
    assert.throws(() => scanJson(Buffer.from(text)), JsonScanError);
  });
}

test("rewriteFields changes what it is told and leaves every other byte and the order of the fields", () => {
  const replacement = fc.constantFrom('"new"', "{}", "[1, 2]", "null", "17");
  const plan = fc.array(fc.tuple(fc.constantFrom("keep", "replace", "remove"), replacement), { minLength: 1 });
  const additions = fc.dictionary(fc.constantFrom("added", "other", 'new "name"'), replacement, { maxKeys: 2 });
  fc.assert(
    fc.property(entries, spellings, plan, additions, (fields, spell, steps, add) => {
      const body = spell(fields);
      const scan = scanJson(body);
      fc.pre(Object.keys(add).every((name) => !scan.fields.has(name)));
      const replace: Record<string, string> = Object.create(null) as Record<string, string>;
      const remove: string[] = [];
      const expected: [string, string][] = [];
      fieldTexts(body, scan).forEach(([name, text], index) => {
        const [kind, value] = steps[index % steps.length] ?? ["keep", ""];
        if (kind === "replace") replace[name] = value;
        if (kind === "remove") remove.push(name);
        else expected.push([name, kind === "replace" ? value : text]);
      });
      expected.push(...Object.entries(add));

      const result = rewriteFields(body, scan, { replace, add, remove });
      assert.deepEqual(fieldTexts(result, scanJson(result)), expected);
      JSON.parse(result.toString());
      for (const [name, field] of scanJson(result).fields) {
        const before = scan.fields.get(name);
        if (!before || name in replace) continue;
        assert.deepEqual(result.subarray(field.keyStart, field.end), body.subarray(before.keyStart, before.end));
      }
    }),
    { numRuns: 500 },
  );
});

test("a body without a change is returned as it is, not copied", () => {
  const body = plain([
    ["model", "m"],
    ["n", 1],
  ]);
  const scan = scanJson(body);
  assert.equal(rewriteFields(body, scan, {}), body);
  assert.equal(rewriteFields(body, scan, { remove: ["absent"], replace: { also: "1" } }), body);
});

test("an object can lose its last field and gain its first", () => {
  const one = plain([["a", 1]]);
  assert.equal(rewriteFields(one, scanJson(one), { remove: ["a"] }).toString(), "{}");
  assert.equal(
    rewriteFields(Buffer.from(" { } "), scanJson(Buffer.from(" { } ")), { add: { a: "1" } }).toString(),
    '{"a":1}',
  );
});

test("a body of more values than its reader wants ends the scan", () => {
  const body = Buffer.from(JSON.stringify({ a: [1, 2, 3] }));
  assert.equal(scanJson(body, undefined, undefined, 4).values, 4);
  assert.throws(() => scanJson(body, undefined, undefined, 3), ManyValuesError);
});
