/** The public conformance scenarios: through the proxy at least as many pass as without it. */

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { after, before, test } from "node:test";
import { promisify } from "node:util";

import { listen, startConformanceServer, type Listening } from "./servers.ts";

const CONFORMANCE = new URL(
  "../node_modules/@modelcontextprotocol/conformance/dist/index.js",
  import.meta.url,
).pathname;
// How many checks pass at least without the proxy: the first revision has one scenario.
const REVISIONS = { "2025-03-26": 3, "2025-06-18": 50, "2025-11-25": 80, "2026-07-28": 100 };

let server: Listening;
let proxy: Listening;

before(async () => {
  server = await startConformanceServer();
  proxy = await listen(server.url);
});

after(async () => {
  await proxy.close();
  await server.close();
});

interface Score {
  readonly passed: number;
  readonly failed: number;
}

/** Returns how many checks of each scenario passed and failed. */
async function score(url: string, revision: string): Promise<Map<string, Score>> {
  const args = [CONFORMANCE, "server", "--url", url, "--suite", "all", "--spec-version", revision];
  const ran = await promisify(execFile)(process.execPath, args, {
    maxBuffer: 64 * 1024 * 1024,
  }).catch((failed: unknown) => failed);
  const { stdout } = ran as { stdout: string };
  const found = stdout.matchAll(/^[✓✗] (\S+): (\d+) passed, (\d+) failed/gm);
  return new Map(
    [...found].map(([, name, passed, failed]) => [
      name ?? "",
      { passed: Number(passed), failed: Number(failed) },
    ]),
  );
}

const sum = (scores: Map<string, Score>, key: keyof Score): number =>
  [...scores.values()].reduce((total, one) => total + one[key], 0);

// Whether its three recommendations count depends on when the server's own stream closes.
const TIMED = "server-sse-polling";

for (const [revision, least] of Object.entries(REVISIONS)) {
  test(`revision ${revision} is spoken as without the proxy`, async (context) => {
    const direct = await score(server.url, revision);
    const proxied = await score(proxy.url, revision);
    for (const [name, scores] of Object.entries({ direct, proxied })) {
      context.diagnostic(`${name}: ${sum(scores, "passed")} passed, ${sum(scores, "failed")} failed`);
    }

    assert.ok(sum(direct, "passed") >= least);
    for (const [name, { passed, failed }] of direct) {
      const through = proxied.get(name);
      assert.ok(through !== undefined && through.failed <= failed, name);
      assert.ok(name === TIMED || through.passed >= passed, name);
    }
  });
}
