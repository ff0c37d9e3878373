/** Each block of TypeScript in the docs compiles, runs, and prints what its page says. */

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdir, mkdtemp, readFile, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { after, before, test } from "node:test";
import { promisify } from "node:util";

import { ROOT, startService } from "./service.ts";
import type { Service } from "./service.ts";

const run = promisify(execFile);
const PACKAGE = new URL("../", import.meta.url).pathname;
// Inside the package, whose name its own files may import.
const FOLDER = join(PACKAGE, ".docs");
const URL_OF_PAGES = "http://127.0.0.1:8642";
const BLOCK = /^```ts\n(.*?)^```\n(?:\n```text\n(.*?)^```$)?/gms;

let service: Service;
before(async () => {
  service = await startService();
  await mkdir(FOLDER, { recursive: true });
});
after(async () => {
  await service.close();
  await rm(FOLDER, { recursive: true, force: true });
});

const pages = new URL("docs/how-to/", ROOT);
for (const page of await readdir(pages)) {
  const text = await readFile(new URL(page, pages), "utf8");
  for (const [, code = "", output] of text.matchAll(BLOCK)) {
    const line = text.slice(0, text.indexOf(code)).split("\n").length;
    test(`${page}:${line}`, async () => {
      const file = join(FOLDER, `${basename(page, ".md")}_${line}.ts`);
      await writeFile(file, `${code.replaceAll(URL_OF_PAGES, service.url)}\nexport {};\n`);
      const options = { extends: "../tsconfig.json", include: [basename(file)] };
      const config = `${file}.json`;
      await writeFile(config, JSON.stringify(options));
      await run(join(PACKAGE, "node_modules/.bin/tsc"), ["-p", config]).catch((error) => {
        assert.fail(error.stdout);
      });
      const { stdout } = await run(process.execPath, [file]);

      if (output !== undefined) assert.equal(stdout, output);
    });
  }
}

test("a module of an organisation's codes is a registry", async () => {
  const name = { code: "acme.com/KYC_EXPIRED", parent: "CONTEXT_MISSING" };
  const registry = {
    schema_version: "reason_codes.v1",
    version: "1.0.0",
    domain: "acme.com",
    codes: [{ ...name, description: "Too old.", since: "1.0.0", aliases: ["Prüfung abgelaufen"] }],
  };
  const file = join(FOLDER, "acme.json");
  await writeFile(file, JSON.stringify(registry));
  const module = await service.run("codes", "export", "--to", "typescript", "--registry", file);
  await writeFile(join(FOLDER, "acme_codes.ts"), module);
  const block = `
import { formatRefusal, parseRefusal } from "@demur/client";
import * as acme from "./acme_codes.ts";

const line = formatRefusal("acme.com/KYC_EXPIRED", "card 7", { registry: acme });
console.log(parseRefusal(line, { registry: acme })?.code, parseRefusal(line));
console.log(parseRefusal("PRÜFUNG abgelaufen", { registry: acme })?.code);
`;
  await writeFile(join(FOLDER, "acme.ts"), block);
  const { stdout } = await run(process.execPath, [join(FOLDER, "acme.ts")]);

  assert.equal(stdout, "acme.com/KYC_EXPIRED null\nacme.com/KYC_EXPIRED\n");
});

test("the packed package installs without a registry, and brings its types", async () => {
  const project = await mkdtemp(join(tmpdir(), "demur-project-"));
  try {
    const words = ["pack", "--json", "--silent", "--pack-destination", project];
    const packed = await run("npm", words, { cwd: PACKAGE });
    const [{ filename, files }] = JSON.parse(packed.stdout);
    const paths: string[] = files.map((one: { path: string }) => one.path);
    assert.ok(paths.includes("dist/index.d.ts"));
    assert.deepEqual(paths.filter((path) => !path.startsWith("dist/")), ["package.json"]);

    await writeFile(join(project, "package.json"), '{"type": "module"}');
    const install = ["install", "--offline", "--no-audit", "--no-fund", `./${filename}`];
    await run("npm", install, { cwd: project });
    const code = `import { formatRefusal } from "@demur/client"; console.log(formatRefusal("RATE_LIMIT"));`;
    const { stdout } = await run(process.execPath, ["--input-type=module", "-e", code], { cwd: project });
    assert.equal(stdout, "REFUSED: RATE_LIMIT: \n");
  } finally {
    await rm(project, { recursive: true, force: true });
  }
});
