import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { repository } from "../tools/checks/run.ts";
import { copiedFiles, isInContext } from "./context.ts";
import { neededBy } from "./imports.ts";

const textOf = (path: string): string => readFileSync(join(repository, path), "utf8");
const dockerfile = textOf("deploy/Dockerfile")
  .replace(/^#.*\n/gm, "")
  .replace(/\\\n\s*/g, "");
const instructions = dockerfile.split("\n").filter((line) => line !== "");
const copied = copiedFiles();
// The build stage leaves it beside the packages.
const present = [...copied, "package.json"];

describe("what goes into the image", () => {
  const needed = neededBy("deploy/image/main.ts");

  it("is every file that a service imports or reads when it runs", () => {
    const commands = ["relay", "auth-quota", "billing", "video-task", "console"].map(
      (name) => `services/${name}/main.ts`,
    );
    const tools = ["deploy/tools/migrate/main.ts", "deploy/tools/admin/main.ts", "services/relay/catalog/check.ts"];
    for (const main of [...commands, ...tools]) assert.ok(needed.files.has(main), main);
    assert.ok(needed.files.size > 250, `the imports were followed: ${needed.files.size} files`);
    assert.deepEqual(
      [...needed.files].filter((file) => !present.includes(file)),
      [],
    );
    const folders = ["services/auth-quota/store/lua", "services/billing/store/migrations", "services/console/static"];
    for (const folder of folders) assert.ok(needed.folders.has(folder), folder);
    for (const folder of needed.folders)
      assert.ok(
        copied.some((file) => file.startsWith(`${folder}/`)),
        folder,
      );
  });

  it("needs packages of the dependencies only", () => {
    const { dependencies } = JSON.parse(textOf("package.json")) as { dependencies: Record<string, string> };
    assert.ok(needed.packages.has("fastify") && needed.packages.has("htmx.org"));
    assert.deepEqual(
      [...needed.packages].filter((name) => !Object.hasOwn(dependencies, name)),
      [],
    );
  });

  it("is no test, nothing that only tests need, and nothing that is only read by people", () => {
    const ofTests = /\.test\.ts$|\/testing\/|\/fixtures\/|\/golden\/|\.md$/;
    const notRun = /^deploy\/(?!image\/main\.ts|tools\/(?:migrate|admin|backup|certificates|debug)\/)/;
    assert.deepEqual(
      copied.filter((file) => ofTests.test(file) || notRun.test(file)),
      [],
    );
    assert.deepEqual(
      copied.filter((file) => !/\.(ts|lua|sql|css|js|svg)$/.test(file)),
      [],
    );
  });
});

describe("the Dockerfile", () => {
  it("takes its bases from arguments whose defaults name Node 24 and Debian 12", () => {
    const bases = instructions.filter((line) => /^(ARG \w+_IMAGE|FROM)/.test(line));
    assert.deepEqual(bases, [
      "ARG BUILD_IMAGE=docker.io/library/node:24-bookworm-slim",
      "ARG POSTGRES_IMAGE=docker.io/library/postgres:17-bookworm",
      "ARG RUNTIME_IMAGE=gcr.io/distroless/nodejs24-debian12:nonroot",
      "FROM ${BUILD_IMAGE} AS build",
      "FROM ${POSTGRES_IMAGE} AS postgres",
      "FROM ${RUNTIME_IMAGE}",
    ]);
  });

  it("fetches nothing but packages by the lock file, runs no script of them, and runs nothing in the last stage", () => {
    assert.deepEqual(
      instructions.filter((line) => /^ADD|curl|wget|https?:/.test(line)),
      [],
    );
    const [packages, clients, ...others] = instructions.filter((line) => line.startsWith("RUN"));
    assert.match(packages ?? "", /npm ci --omit=dev --ignore-scripts/);
    assert.deepEqual(others, []);
    assert.doesNotMatch(packages ?? "", /npm (install|i|update|exec)\b|npx/);
    assert.match(clients ?? "", /^RUN mkdir .* && cp /);
    assert.doesNotMatch(clients ?? "", /apt|npm/);
    const last = instructions.slice(instructions.findLastIndex((line) => line.startsWith("FROM")));
    assert.ok(!last.some((line) => line.startsWith("RUN")));
  });

  it("keeps no setting of npm and no secret in a layer or a variable", () => {
    assert.match(dockerfile, /RUN --mount=type=secret,id=npmrc,target=\/root\/\.npmrc/);
    assert.doesNotMatch(dockerfile, /COPY .*npmrc|(ARG|ENV) .*(TOKEN|PASSWORD|SECRET|KEY)/i);
  });

  it("ends as a user who is not root, whose command is the one process of the container", () => {
    const last = instructions.slice(instructions.findLastIndex((line) => line.startsWith("FROM")));
    assert.deepEqual(
      last.filter((line) => line.startsWith("USER")),
      ["USER 65532:65532"],
    );
    assert.deepEqual(
      last.filter((line) => /^(ENTRYPOINT|CMD)/.test(line)),
      ['ENTRYPOINT ["/nodejs/bin/node", "/app/deploy/image/main.ts"]'],
    );
    assert.ok(last.findIndex((line) => line.startsWith("COPY --from")) < last.indexOf("COPY services /app/services"));
  });
});

describe(".dockerignore", () => {
  const text = textOf(".dockerignore");

  it("lets nothing in that it does not name", () => {
    assert.ok(text.split("\n").includes("*"));
    const outside = [".git/config", ".npmrc", ".env", ".local/seed.json", "node_modules/pg/package.json", "secret.pem"];
    const built = [
      "deploy/compose.yaml",
      "deploy/image/main.test.ts",
      "services/relay/testing/fakes.ts",
      "helm/a.yaml",
    ];
    for (const path of [...outside, ...built]) assert.equal(isInContext(text, path), false, path);
  });

  it("lets in what the image is built from", () => {
    for (const path of ["package.json", "package-lock.json", "services/relay/main.ts", "proto/gen/a/v1/a_pb.ts"]) {
      assert.equal(isInContext(text, path), true, path);
    }
  });

  it("is read as docker reads it: the last pattern that fits the path or a folder above it decides", () => {
    assert.equal(isInContext("*\n!a", "a/b/c"), true);
    assert.equal(isInContext("*\n!a\n**/b", "a/b/c"), false);
    assert.equal(isInContext("**/*.md", "a/b.md"), false);
    assert.equal(isInContext("**/*.md", "b.md"), false);
    assert.equal(isInContext("*.md", "a/b.md"), true);
  });
});
