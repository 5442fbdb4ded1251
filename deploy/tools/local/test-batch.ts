import { test } from "node:test";

// The process of a batch of test files, which are its arguments: to start a process for each takes longer than they do.
for (const path of process.argv.slice(2)) {
  try {
    await import(path);
  } catch (error) {
    test(path, () => {
      throw error;
    });
  }
}
