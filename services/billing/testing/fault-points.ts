/** Where tests kill a process that moves a day out of the ledger, or reads one back. */
export const archiveFaultPoints = {
  written: "billing: day's files written, nothing signed",
  signed: "billing: day archived, lines still in the ledger",
  readBack: "billing: day read back, not in the ledger",
} as const;
