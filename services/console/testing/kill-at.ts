// Imported before a process of the console, which dies at the fault point that its argument names.
const [, , point] = process.argv;

Object.assign(globalThis, {
  passFaultPoint: (name: string): void => {
    if (name === point) process.kill(process.pid, "SIGKILL");
  },
});
