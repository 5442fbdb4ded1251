import type { Readable } from "node:stream";

/** Rows of a table; the last column has figures, which stand to the right. */
export type PdfTable = { caption: string; head: readonly string[]; rows: readonly (readonly string[])[] };

/** A document for bookkeeping: what it is, facts as names and values, and tables. */
export type PdfDocument = {
  title: string;
  facts: readonly (readonly [name: string, value: string])[];
  tables: readonly PdfTable[];
  note: string;
  madeAt: Date;
};

// The fonts that every reader has know Latin letters alone.
const written = (text: string): string => text.replaceAll(/[^\x20-\x7e\xa0-\xff]/gu, "?");

/** A4, in one font; a long table goes on on the next page. */
export async function writePdf({ title, facts, tables, note, madeAt }: PdfDocument): Promise<Readable> {
  // It takes a tenth of a second and some MB, which a console that writes none need not have.
  const { default: PdfKit } = await import("pdfkit");
  const info = { Title: written(title), CreationDate: madeAt, ModDate: madeAt };
  const document = new PdfKit({ size: "A4", margin: 56, info, lang: "en", displayTitle: true });
  document.font("Helvetica-Bold").fontSize(20).text(written(title));
  document.moveDown().fontSize(10);
  for (const [name, value] of facts) {
    document.font("Helvetica-Bold").text(`${written(name)}: `, { continued: true });
    document.font("Helvetica").text(written(value));
  }
  for (const { caption, head, rows } of tables) {
    document.moveDown(1.5).font("Helvetica-Bold").fontSize(12).text(written(caption)).moveDown(0.5).fontSize(9);
    const aligned = (cells: readonly string[]) =>
      cells.map((text, index) => ({
        text: written(text),
        align: { x: index === cells.length - 1 ? ("right" as const) : ("left" as const) },
      }));
    const style = { border: [0, 0, 0.5, 0] as [number, number, number, number], borderColor: "#bbbbbb", padding: 4 };
    document.font("Helvetica");
    document.table({ defaultStyle: style, data: [head, ...rows].map(aligned) });
  }
  document.moveDown(1.5).font("Helvetica").fontSize(9).text(written(note));
  document.end();
  return document;
}
