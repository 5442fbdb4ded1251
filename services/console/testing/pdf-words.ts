import { inflateSync } from "node:zlib";

/** The words of a PDF, which stand in it in pieces between which letters are moved. */
export function pdfWords(pdf: Buffer): string {
  let words = "";
  for (let at = pdf.indexOf("stream\n"); at >= 0; at = pdf.indexOf("stream\n", at)) {
    const end = pdf.indexOf("\nendstream", at);
    const content = inflateSync(pdf.subarray(at + "stream\n".length, end)).toString("latin1");
    for (const [, shown = ""] of content.matchAll(/\[([^\]]*)\] TJ/g)) {
      const pieces = [...shown.matchAll(/<([0-9a-f]*)>/g)].map(([, hex = ""]) => Buffer.from(hex, "hex"));
      words += `${Buffer.concat(pieces).toString("latin1")}|`;
    }
    at = end + "\nendstream".length;
  }
  return words;
}
