import { startFakeVideos } from "#fake-provider/videos.ts";

// The provider of videos in a process of its own, so that its CPU is nobody else's. Its argument, if it has one, names
// the file that gets the truth of every task.
const [truthFile] = process.argv.slice(2);
const { port } = await startFakeVideos({ truthFile });
process.stdout.write(`${JSON.stringify({ port })}\n`);
