/** Starts MCP servers of the tests: guarded by their framework, or behind `demur mcp proxy`. */

import { spawn, type ChildProcess } from "node:child_process";
import { createInterface } from "node:readline";

const ROOT = new URL("../../../../", import.meta.url);
const pathOf = (name: string): string => new URL(name, ROOT).pathname;

/** A Python with demur and the MCP frameworks. */
const PYTHON = process.env["DEMUR_MCP_PYTHON"] ?? pathOf(".venv-adapters/bin/python");
const PROXY = ["-m", "demur", "mcp", "proxy", "--no-loops"];

export interface Command {
  readonly command: string;
  readonly args: string[];
}

/** A server whose tools promise an output; `bare` is not guarded. */
export const schemaServer = (kind: "mcp" | "fastmcp" | "bare"): Command => ({
  command: PYTHON,
  args: [pathOf("tests/adapters/mcp_schema_server.py"), kind],
});

export const behindProxy = (server: Command): Command => ({
  command: PYTHON,
  args: [...PROXY, "--", server.command, ...server.args],
});

export const everythingServer: Command = {
  command: process.execPath,
  args: [
    pathOf("tests/node/mcp/node_modules/@modelcontextprotocol/server-everything/dist/index.js"),
    "stdio",
  ],
};

export interface Listening {
  readonly url: string;
  close(): Promise<void>;
}

/** Starts a proxy that listens, before a command or an address. */
export function listen(behind: Command | string): Promise<Listening> {
  const server =
    typeof behind === "string" ? ["--url", behind] : ["--", behind.command, ...behind.args];
  return start([...PROXY, "--listen", "0", ...server], /listens on (\S+)/);
}

/** Starts the server of the conformance scenarios. */
export const startConformanceServer = (): Promise<Listening> =>
  start([pathOf("tests/adapters/mcp_conformance_server.py"), "0"], /running on (\S+)/, "/mcp");

async function start(args: string[], pattern: RegExp, path = ""): Promise<Listening> {
  const child = spawn(PYTHON, args, { stdio: ["ignore", "ignore", "pipe"] });
  for await (const line of createInterface(child.stderr)) {
    const found = pattern.exec(line);
    if (found?.[1] !== undefined) {
      child.stderr.resume();
      return { url: found[1] + path, close: () => stop(child) };
    }
  }
  throw new Error(`${args.join(" ")} did not start`);
}

async function stop(child: ChildProcess): Promise<void> {
  const ended = new Promise((resolve) => child.once("exit", resolve));
  child.kill("SIGTERM");
  await ended;
}
