/** The proxy leaves the official sample server as it is. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { Client as NewClient, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

import { behindProxy, everythingServer, listen, type Command } from "./servers.ts";

async function readAll(server: Command): Promise<unknown> {
  const client = new Client({ name: "test", version: "1.0.0" });
  await client.connect(new StdioClientTransport({ ...server, stderr: "ignore" }));
  try {
    const { resources } = await client.listResources();
    const contents = [];
    for (const { uri } of resources) contents.push(await client.readResource({ uri }));
    const { tools } = await client.listTools();
    const { prompts } = await client.listPrompts();
    const prompt = await client.getPrompt({ name: "simple-prompt" });
    return { instructions: client.getInstructions(), contents, tools, prompts, prompt };
  } finally {
    await client.close();
  }
}

test("instructions, documents, tools and prompts of server-everything pass unchanged", async () => {
  const direct = await readAll(everythingServer);
  assert.deepEqual(await readAll(behindProxy(everythingServer)), direct);
  assert.ok((direct as { instructions: string }).instructions.length > 100);
});

test("the newest client falls back to the handshake of an older server over HTTP", async () => {
  const proxy = await listen(everythingServer);
  const settings = { versionNegotiation: { mode: "auto" } } as const;
  const client = new NewClient({ name: "test", version: "1.0.0" }, settings);
  try {
    await client.connect(new StreamableHTTPClientTransport(new URL(proxy.url)));
    const said = await client.callTool({ name: "echo", arguments: { message: "hello" } });
    assert.match(JSON.stringify(said.content), /hello/);
  } finally {
    await client.close();
    await proxy.close();
  }
});
