import type { CallerRequest, StreamWriter } from "../conversion.ts";
import { isLongBase64, writeJson } from "../json/long-texts.ts";
import { createResponseWriter } from "./write-events.ts";

/** Writes the stream of a response: the full ladder of events, numbered from 0 (trap 21). */
export function createStreamWriter(asked: CallerRequest): StreamWriter {
  let text = "";
  let sequence = 0;
  const pictures: string[] = [];
  const writer = createResponseWriter(asked, (type, fields) => {
    text += `event: ${type}\ndata: ${writeJson({ type, sequence_number: sequence, ...fields }, pictures)}\n\n`;
    sequence += 1;
  });
  return {
    write: (event) => {
      text = "";
      if (event.kind === "block-start" && event.block.kind === "image" && isLongBase64(event.block.data)) {
        pictures.push(event.block.data);
      }
      writer.write(event);
      return text;
    },
  };
}
