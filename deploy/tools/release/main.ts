import { join } from "node:path";
import { repository } from "../checks/run.ts";
import { buildImage, makeRelease, readSource, releaseProblems } from "./release.ts";

const source = await readSource();
const problems = await releaseProblems(source.version);
if (problems.length > 0) {
  process.stderr.write(`${problems.join("\n")}\n`);
  process.exitCode = 1;
} else {
  const folder = process.argv[2] ?? join(repository, ".local/releases", source.version);
  const files = await makeRelease(folder, source, buildImage);
  if (!files.some((file) => file.endsWith(".oci.tar"))) {
    process.stderr.write("the image is not among them: there is neither docker buildx nor buildah\n");
  }
  process.stdout.write(`${files.map((file) => join(folder, file)).join("\n")}\n`);
}
