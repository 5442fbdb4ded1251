import { createHash } from "node:crypto";

/** A field of a form: a text, or a file. */
export type FormPart = { name: string; value: string | { fileName: string; mediaType: string; content: Uint8Array } };

/**
 * Writes a form as multipart/form-data (RFC 7578), texts byte for byte as they are. The boundary is a hash of all
 * values, so that no value can hold it and the same values give the same bytes. Names, file names and media types are
 * ours or checked: they are written as they are.
 */
export function writeForm(parts: FormPart[]): { contentType: string; body: Buffer } {
  const hash = createHash("sha256");
  for (const { value } of parts) hash.update(typeof value === "string" ? value : value.content);
  const boundary = `form-${hash.digest("hex")}`;
  const pieces = parts.flatMap(({ name, value }) => {
    const head = `--${boundary}\r\ncontent-disposition: form-data; name="${name}"`;
    if (typeof value === "string") return [Buffer.from(`${head}\r\n\r\n${value}\r\n`)];
    const { fileName, mediaType, content } = value;
    return [
      Buffer.from(`${head}; filename="${fileName}"\r\ncontent-type: ${mediaType}\r\n\r\n`),
      content,
      Buffer.from("\r\n"),
    ];
  });
  const body = Buffer.concat([...pieces, Buffer.from(`--${boundary}--\r\n`)]);
  return { contentType: `multipart/form-data; boundary=${boundary}`, body };
}
