import assert from "node:assert/strict";
import { test } from "node:test";
import { parseCatalog } from "./catalog.ts";
import { describeCatalog } from "./describe.ts";

const text = `upstreams:
  near: { base_url: https://near.example, dialects: [openai-chat], credential: { env: KEY } }
  far: { base_url: https://far.example, dialects: [openai-images], credential: { env: KEY }, on_caller_gone: abort }
models:
  words:
    owned_by: somebody
    upstreams:
      - name: near
        model: words-1
        cost:
          input_tokens: "0.2"
          output_tokens: "2.5"
          tool_calls: "10000"
          variants: [{ service_tier: priority, multiplier: "3" }]
      - { name: near }
    context_tokens: 1000
    max_output_tokens: 100
    price:
      version: "2026-11-01"
      input_tokens: "0.25"
      cache_read_tokens: "0.025"
      output_tokens: "2.00"
      variants: [{ service_tier: priority, above_input_tokens: 200, multiplier: "2" }]
  pictures:
    owned_by: somebody
    dialects: [openai-images]
    upstreams: [{ name: far }]
    price: { version: "p1", images: "40000", variants: [{ size: large, quality: hd, images: "80000" }] }
`;

test("a catalog is shown with every price row: version, condition, prices, cost and what is left between them", () => {
  const shown = describeCatalog(parseCatalog(text, "catalog.yaml", { KEY: "key" }));
  assert.equal(
    shown,
    `USD per 1,000,000 units

words at near (words-1), near
  2026-11-01
                           price  cost at near  margin
    input_tokens            0.25           0.2    0.05
    cache_read_tokens      0.025           0.2  -0.175
    cache_write_5m_tokens   0.25           0.2    0.05
    cache_write_1h_tokens   0.25           0.2    0.05
    output_tokens              2           2.5    -0.5
    reasoning_tokens           2           2.5    -0.5
    audio_input_tokens      0.25           0.2    0.05
    audio_output_tokens        2           2.5    -0.5
    image_input_tokens      0.25           0.2    0.05
    image_output_tokens        2           2.5    -0.5
    tool_calls                 -         10000       -
  2026-11-01+priority-above-200: service_tier priority, more than 200 input tokens
                           price  cost at near  margin
    input_tokens             0.5           0.6    -0.1
    cache_read_tokens       0.05           0.6   -0.55
    cache_write_5m_tokens    0.5           0.6    -0.1
    cache_write_1h_tokens    0.5           0.6    -0.1
    output_tokens              4           7.5    -3.5
    reasoning_tokens           4           7.5    -3.5
    audio_input_tokens       0.5           0.6    -0.1
    audio_output_tokens        4           7.5    -3.5
    image_input_tokens       0.5           0.6    -0.1
    image_output_tokens        4           7.5    -3.5
    tool_calls                 -         10000       -

pictures at far
  p1
            price
    images  40000
  p1+large-hd: size large, quality hd
            price
    images  80000

when a caller leaves
  near: drain, at most 600000 ms and 8192 output tokens
  far: abort
`,
  );
});
