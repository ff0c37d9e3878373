/** Runs the shared scenarios through the frameworks, and prints them as a table. */

import { execFile } from "node:child_process";
import { test } from "node:test";
import { promisify } from "node:util";

import { ROOT } from "./service.ts";

test("each framework gives the results of Python in every scenario", async () => {
  const words = ["tools/adapters_table.py", "--only", "typescript"];
  const options = { cwd: ROOT, env: { ...process.env, NODE: process.execPath } };
  const { stdout } = await promisify(execFile)(".venv/bin/python", words, options);
  console.log(stdout);
});
