/**
 * Fields of requests, by `caller path`, that leave no trace in a provider's request and are not named as dropped, each
 * with why nothing is lost with it.
 */
export const unsaidFields: readonly (readonly [path: RegExp, why: string])[] = [
  [/ (stream=\w+|stream_options.*)$/, "how the answer travels, which is the relay's own doing or stands in the path"],
  [/=auto$|=disabled$|ttl=5m$|\(auto\)$|format\(text\)$|modalities\[\](\.=text)?$/, "asks for what happens anyway"],
  [/disable_parallel_tool_use=false$|parallel_tool_calls=true$|is_error=false$/, "asks for what happens anyway"],
  [/ store=false$| background=false$|logprobs=false$|strict=false$/, "asks for what happens anyway: nothing is stored"],
  [/citations\.enabled=false$/, "asks for what happens anyway"],
  [/display=summarized$/, "thinking is shown to who asks for it unless this says otherwise"],
  [/ttl=30m$/, "the shortest retention of the other provider stands for it"],
  [/include\[\]\.=reasoning\.encrypted_content$/, "state comes back in any case"],
  [
    / (access_programs|background_options|image|metadata|output_config|prompt_cache_options|reasoning|text)$/,
    "an object without settings",
  ],
  [/type=(message|custom)$/, "says what is so without it"],
  [/\.(id|status=\w+)$|\)(id|status=\w+)$/, "names and states of items mean something to their issuer alone"],
  [/\)caller\b/, "how a call came about: the call itself is carried"],
  [/ (inference_geo|service_tier=\w+|speed=\w+)$/, "the API removes them for all models"],
  [/ max_tokens$/, "always given"],
  [/\(assistant\)$/, "a message that says nothing"],
  [/role=(system|developer|user)$/, "both roles instruct, or both are the user's, at this provider"],
  [/\(reasoning\)content\[\]/, "thoughts beside their summary: the summary is carried"],
  [
    /citations\[\].*\)(cited_text|encrypted_index|end_block_index|search_result_index|start_block_index)$/,
    "the source is carried, with its title",
  ],
  [/json_schema\)\.(name|strict=\w+)$/, "a label, and a schema that is always strict at this provider"],
  [/budget_tokens$/, "budgets of one step are one effort"],
  [/required\[\]\.?$/, "a property that the schema does not have"],
  [/allowed_tools\.tools\[\]\.$/, "no tool of any kind that is known"],
  [/\(image_generation_call\)/, "how a picture was made: the picture is carried"],
  [/detail=auto$/, "asks for what happens anyway"],
];
