/** Where tests kill a process that tops an account up by itself. */
export const chargeFaultPoints = [
  "console: charge written down, nothing asked",
  "console: card charged, nothing credited",
  "console: top-up credited, not noted",
] as const;
