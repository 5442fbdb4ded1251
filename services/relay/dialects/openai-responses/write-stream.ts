import type { CallerRequest, StreamWriter } from "../conversion.ts";
import { createResponseWriter } from "./write-events.ts";

/** Writes the stream of a response: the full ladder of events, numbered from 0 (trap 21). */
export function createStreamWriter(asked: CallerRequest): StreamWriter {
  let text = "";
  let sequence = 0;
  const writer = createResponseWriter(asked, (type, fields) => {
    text += `event: ${type}\ndata: ${JSON.stringify({ type, sequence_number: sequence, ...fields })}\n\n`;
    sequence += 1;
  });
  return {
    write: (event) => {
      text = "";
      writer.write(event);
      return text;
    },
  };
}
