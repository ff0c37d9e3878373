/** The examples compile, and print what they should. */

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { rm, writeFile } from "node:fs/promises";
import { after, before, test } from "node:test";
import { promisify } from "node:util";

import { startService } from "./service.ts";
import type { Service } from "./service.ts";

const run = promisify(execFile);
const PACKAGE = new URL("../", import.meta.url).pathname;
const CONFIG = `${PACKAGE}.examples.json`;
const RAN = "ran: 20 for order A-1 is on its way\n";
const WAITS = "refused: SPEND_OVER_APPROVAL_LIMIT advice: request_approval\n";
const OUTPUTS = {
  "ai-sdk.ts": `${RAN}${WAITS}ended: RCE_RISK\n`,
  "langchain.ts": `${RAN}${WAITS}refused: RCE_RISK advice: do_not_retry\nended: RCE_RISK\n`,
};

let service: Service;
before(async () => {
  service = await startService();
});
after(async () => {
  await service.close();
  await rm(CONFIG, { force: true });
});

test("examples compile", async () => {
  await writeFile(CONFIG, JSON.stringify({ extends: "./tsconfig.json", include: ["examples"] }));
  await run(`${PACKAGE}node_modules/.bin/tsc`, ["-p", CONFIG]).catch((error) => assert.fail(error.stdout));
});

for (const [name, output] of Object.entries(OUTPUTS)) {
  test(`${name} prints what was refused`, async () => {
    const env = { ...process.env, DEMUR_URL: service.url };
    const { stdout } = await run(process.execPath, [`${PACKAGE}examples/${name}`], { env });

    assert.equal(stdout, output);
  });
}
