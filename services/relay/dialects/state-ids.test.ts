import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { dialects } from "./index.ts";
import type { DialectName } from "./dialect.ts";
import { readJsonBody } from "./json/request-body.ts";
import { editStateIds, findStateIds } from "./state-ids.ts";

const read = (body: object | string, dialect: DialectName = "openai-chat") =>
  readJsonBody(Buffer.from(typeof body === "string" ? body : JSON.stringify(body)), dialects[dialect].mediaPlaces);

function idsOf(dialect: DialectName, body: object | string): string[] {
  const { statePlaces = {} } = dialects[dialect];
  return (findStateIds(read(body, dialect), statePlaces) ?? []).map(
    ({ kind, path, text, isOptional }) => `${kind} ${path}=${text}${isOptional ? " ?" : ""}`,
  );
}

const found: [name: string, dialect: DialectName, body: object, ids: string[]][] = [
  [
    "an earlier response and a conversation",
    "openai-responses",
    { previous_response_id: "resp_1", conversation: "conv_1", input: "hi" },
    ["response previous_response_id=resp_1", "conversation conversation=conv_1"],
  ],
  [
    "a conversation and a stored prompt as objects, with a file in a variable",
    "openai-responses",
    {
      conversation: { id: "conv_1" },
      prompt: { id: "pmpt_1", variables: { a: { type: "input_file", file_id: "f" } } },
    },
    ["conversation conversation.id=conv_1", "prompt prompt.id=pmpt_1", "file prompt.variables.a.file_id=f"],
  ],
  [
    "stores, files, containers and skills of tools",
    "openai-responses",
    {
      tools: [
        { type: "file_search", vector_store_ids: ["vs_1", "vs_2"] },
        { type: "code_interpreter", container: "cntr_1" },
        { type: "code_interpreter", container: { type: "auto", file_ids: ["file_1"] } },
        { type: "shell", environment: { type: "container_reference", container_id: "cntr_2" } },
        {
          type: "shell",
          environment: { type: "container_auto", skills: [{ type: "skill_reference", skill_id: "s" }] },
        },
        { type: "image_generation", input_image_mask: { file_id: "file_2" } },
        { type: "mcp", tunnel_id: "tunnel_1" },
      ],
    },
    [
      "vector_store tools[0].vector_store_ids[0]=vs_1",
      "vector_store tools[0].vector_store_ids[1]=vs_2",
      "container tools[1].container=cntr_1",
      "file tools[2].container.file_ids[0]=file_1",
      "container tools[3].environment.container_id=cntr_2",
      "skill tools[4].environment.skills[0].skill_id=s",
      "file tools[5].input_image_mask.file_id=file_2",
      "tunnel tools[6].tunnel_id=tunnel_1",
    ],
  ],
  [
    "references to items, and ids of items that come along",
    "openai-responses",
    {
      input: [
        { type: "item_reference", id: "rs_1" },
        { id: "msg_1" },
        { type: "message", id: "msg_2", role: "assistant", content: [] },
        { id: "msg_3", role: "user", content: "hi" },
        { type: "mcp_approval_response", approval_request_id: "mcpr_1", approve: true },
        { type: "function_call_output", call_id: "call_1", output: [{ type: "input_image", file_id: "file_1" }] },
        { type: "code_interpreter_call", id: "ci_1", container_id: "cntr_1", code: "1" },
      ],
    },
    [
      "response input[0].id=rs_1",
      "response input[1].id=msg_1",
      "response input[2].id=msg_2 ?",
      "response input[3].id=msg_3 ?",
      "response input[4].approval_request_id=mcpr_1",
      "file input[5].output[0].file_id=file_1",
      "response input[6].id=ci_1 ?",
      "container input[6].container_id=cntr_1",
    ],
  ],
  [
    "files, sound and voices of chat",
    "openai-chat",
    {
      audio: { voice: { id: "voice_1" }, format: "mp3" },
      messages: [
        { role: "user", content: [{ type: "file", file: { file_id: "file_1" } }] },
        { role: "assistant", audio: { id: "audio_1" }, tool_calls: [{ id: "call_1" }] },
      ],
    },
    [
      "voice audio.voice.id=voice_1",
      "file messages[0].content[0].file.file_id=file_1",
      "audio messages[1].audio.id=audio_1",
    ],
  ],
  [
    "addresses that a provider opens with rights of the operator's",
    "openai-chat",
    {
      messages: [
        {
          role: "user",
          content: [
            { type: "image_url", image_url: { url: "gs://bucket/a.png" } },
            { type: "image_url", image_url: { url: "https://example.com/gs://a.png" } },
            { type: "image_url", image_url: { url: "data:image/png;base64,AAAA" } },
            { type: "video_url", video_url: { url: "s3://bucket/a.mp4" } },
            { type: "image_url", image_url: "file:///etc/passwd" },
            { type: "file", file_url: "https://generativelanguage.googleapis.com/v1beta/files/abc" },
            { type: "text", text: "gs://bucket" },
          ],
        },
      ],
    },
    [
      "file messages[0].content[0].image_url.url=gs://bucket/a.png",
      "file messages[0].content[3].video_url.url=s3://bucket/a.mp4",
      "file messages[0].content[4].image_url=file:///etc/passwd",
      "file messages[0].content[5].file_url=https://generativelanguage.googleapis.com/v1beta/files/abc",
    ],
  ],
  [
    "a cached content, as Google's chat endpoint takes it",
    "openai-chat",
    { extra_body: { google: { cached_content: "cachedContents/1" } } },
    ["cached_content extra_body.google.cached_content=cachedContents/1"],
  ],
  [
    "containers, skills and files of Messages",
    "anthropic-messages",
    {
      container: {
        id: "container_1",
        skills: [
          { type: "custom", skill_id: "skill_1" },
          { type: "anthropic", skill_id: "pptx" },
        ],
      },
      messages: [
        {
          role: "user",
          content: [
            { type: "document", source: { type: "file", file_id: "file_1" } },
            { type: "container_upload", file_id: "file_2" },
            { type: "tool_result", content: [{ type: "image", source: { file_id: "file_3", type: "file" } }] },
          ],
        },
      ],
    },
    [
      "container container.id=container_1",
      "skill container.skills[0].skill_id=skill_1",
      "file messages[0].content[0].source.file_id=file_1",
      "file messages[0].content[1].file_id=file_2",
      "file messages[0].content[2].content[0].source.file_id=file_3",
    ],
  ],
  [
    "an earlier message for diagnostics",
    "anthropic-messages",
    { diagnostics: { previous_message_id: "msg_1" } },
    ["response diagnostics.previous_message_id=msg_1"],
  ],
  ["a voice of the operator's", "openai-speech", { input: "hi", voice: { id: "voice_1" } }, ["voice voice.id=voice_1"]],
  ["the same as a text", "openai-speech", { input: "hi", voice: "voice_1" }, ["voice voice=voice_1"]],
  ["the same in chat", "openai-chat", { audio: { voice: "voice_1" }, messages: [] }, ["voice audio.voice=voice_1"]],
];

describe("ids of a provider's state are found", () => {
  for (const [name, dialect, body, ids] of found) {
    test(`${dialect}: ${name}`, () => assert.deepEqual(idsOf(dialect, body), ids));
  }

  test("in whatever way a lenient upstream may read their names", () => {
    for (const name of ["FILE_ID", "File_Id", "\\u0066ile_id", "file\\u005fid"]) {
      const body = `{"messages":[{"content":[{"type":"file","file":{"${name}":"file_1"}}]}]}`;
      assert.equal(idsOf("openai-chat", body).length, 1, name);
    }
    const doubled = '{"input":[{"file_id":null,"type":"input_file","file_id":"file_1"}]}';
    assert.deepEqual(idsOf("openai-responses", doubled), ["file input[0].file_id=file_1"]);
    // Of two types the upstream might believe the other one.
    const typed = '{"messages":[{"content":[{"type":"code_execution_output","type":"x","file_id":"f"}]}]}';
    assert.equal(idsOf("anthropic-messages", typed).length, 1);
    const own = [
      "gs:\\/\\/bucket",
      "\\u0067s://bucket",
      "GS://bucket",
      " gs://b",
      "\\tfile:///etc/passwd",
      "file:/etc",
    ];
    for (const url of [...own, "fi\\nle:///etc", "\\u0001file:///etc", " ".repeat(300), "oss://b", "hdfs://b"]) {
      const body = `{"messages":[{"content":[{"type":"image_url","image_url":{"url":"${url}"}}]}]}`;
      assert.equal(idsOf("openai-chat", body).length, 1, url);
    }
    const signed = `https://a.example/b.png?c=1\\u0026d=${"e".repeat(600)}`;
    for (const url of ["https://a.example/b", "HTTP://a.example", "data:image/png;base64,AAAA", "", signed]) {
      const body = `{"messages":[{"content":[{"type":"image_url","image_url":{"url":"${url}"}}]}]}`;
      assert.deepEqual(idsOf("openai-chat", body), [], url);
    }
    assert.throws(() => idsOf("openai-responses", '{"input":[{"id":"a","id":"b"}]}'), /input\[0\]\.id stands twice/);
  });

  test("one that is longer than any is not read, and is nobody's", () => {
    assert.deepEqual(idsOf("openai-responses", { previous_response_id: "x".repeat(1_000) }), [
      "response previous_response_id=",
    ]);
  });
});

const others: [name: string, dialect: DialectName, body: object][] = [
  ["ids of calls", "openai-chat", { messages: [{ role: "assistant", tool_calls: [{ id: "call_1" }] }] }],
  [
    "names in schemas, in the caller's notes and in what was cited",
    "openai-responses",
    {
      metadata: { file_id: "f" },
      tools: [
        { type: "function", name: "f", parameters: { properties: { file_id: { type: "string", default: "x" } } } },
      ],
      input: [
        {
          role: "assistant",
          content: [{ type: "output_text", annotations: [{ type: "file_citation", file_id: "f" }] }],
        },
        { type: "file_search_call", results: [{ file_id: "f" }] },
      ],
    },
  ],
  [
    "inputs of tools and their results, in any order of fields",
    "anthropic-messages",
    {
      tools: [{ name: "f", input_schema: { properties: { container: { id: "x" } } } }],
      messages: [
        { content: [{ type: "tool_use", id: "toolu_1", input: { file_id: "f" } }] },
        { content: [{ input: { file_id: "f", container: "c" }, type: "tool_use" }] },
        {
          content: [
            { type: "bash_code_execution_result", content: [{ file_id: "f", type: "bash_code_execution_output" }] },
          ],
        },
      ],
    },
  ],
  [
    "no ids",
    "openai-responses",
    { previous_response_id: null, conversation: null, input: [{ role: "user", content: "id" }] },
  ],
  [
    "the voice that everybody may use, and settings of sound",
    "openai-chat",
    { audio: { voice: "alloy" }, messages: [] },
  ],
  ["the prompt of an image", "openai-chat", { prompt: "a fox", messages: [] }],
];

describe("what is none is none", () => {
  for (const [name, dialect, body] of others) {
    test(`${dialect}: ${name}`, () => assert.deepEqual(idsOf(dialect, body), []));
  }
});

test("ids are replaced or left out, and the rest keeps its bytes", () => {
  const text =
    '{"input" : [ {"id":"msg_1", "role":"user","content":1.0}, {"role":"user" , "id" : "msg_2"},{"id":"a"}], "n":1.50}';
  const body = read(text);
  const ids = findStateIds(body, { hasItems: true }) ?? [];
  const edited = (texts: (string | undefined)[]) =>
    editStateIds(
      body,
      ids.map((id, index) => ({ ...id, text: texts[index] })),
    ).toString();
  assert.equal(
    edited(["one", "two", 'th"ree']),
    '{"input" : [ {"id":"one", "role":"user","content":1.0}, {"role":"user" , "id" : "two"},{"id":"th\\"ree"}],"n":1.50}',
  );
  assert.deepEqual(JSON.parse(edited([undefined, undefined, undefined])), {
    input: [{ role: "user", content: 1 }, { role: "user" }, {}],
    n: 1.5,
  });
});
