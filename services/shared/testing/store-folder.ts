/** Where a store runs and what with. */
export type StoreFolder = {
  /** Absolute path of the server program. */
  binary: string;
  folder: string;
  /** Sent when whoever started the store dies without stopping it. */
  orphanSignal: NodeJS.Signals;
  onLine?: ((line: string) => void) | undefined;
};
