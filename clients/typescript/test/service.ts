/** Starts a real demur service with a store of its own. */

import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { appendFile, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";

export const ROOT = new URL("../../../", import.meta.url);
/** How long a test waits for an answer on a busy machine. */
export const PATIENCE_MS = 120_000;
const DEMUR = process.env["DEMUR"] ?? new URL(".venv/bin/demur", ROOT).pathname;

export interface Service {
  readonly url: string;
  /** Runs a command of demur in the folder of the service, and returns what it prints. */
  run(...words: string[]): Promise<string>;
  close(): Promise<void>;
}

/** Starts a service; `settings` are added to its `demur.toml`. */
export async function startService(settings = ""): Promise<Service> {
  const cwd = await mkdtemp(join(tmpdir(), "demur-ts-"));
  const run = async (...words: string[]): Promise<string> =>
    (await promisify(execFile)(DEMUR, words, { cwd })).stdout;
  await run("init", "--agent");
  await appendFile(join(cwd, "demur.toml"), settings);
  const child = spawn(DEMUR, ["serve", "--port", "0", "--json", "--no-sample"], {
    cwd,
    stdio: ["ignore", "pipe", "inherit"],
  });
  const exited = once(child, "exit");
  const lines = createInterface(child.stdout)[Symbol.asyncIterator]();
  const first = await lines.next();
  assert.ok(!first.done, "demur serve printed nothing");
  const { url } = JSON.parse(first.value) as { url: string };
  const close = async (): Promise<void> => {
    child.kill("SIGTERM");
    await exited;
    await rm(cwd, { recursive: true, force: true });
  };
  return { url, run, close };
}
