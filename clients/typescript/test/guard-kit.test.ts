/** How a change of a text that was checked as a whole comes back into its parts. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { divideChanged, listTexts, replaceTexts } from "../src/guard_kit.ts";

test("a changed text is divided as its parts were", () => {
  assert.deepEqual(divideChanged(["a\nkey", "b", ""], "a\n[removed]\nb\n"), ["a\n[removed]", "b", ""]);
});

test("a change across parts stands in the first of them", () => {
  assert.deepEqual(divideChanged(["a ke", "y b"], "a [removed] b"), ["a [removed] b", ""]);
});

test("a change of lines leaves the texts before and after it in their parts", () => {
  const texts = ["Hello.", "key\nkey\nend", "", "Bye."];
  assert.deepEqual(divideChanged(texts, "Hello.\n[removed]\nend\n\nBye."), ["Hello.", "[removed]\nend", "", "Bye."]);
  assert.deepEqual(divideChanged(["a", "a"], "a"), ["a", ""]);
});

test("texts are replaced in the order in which they are listed", () => {
  const image = { type: "image", image: "x" };
  const content = ["a", "", { type: "text", text: "b" }, image, { type: "file", data: { text: "c" } }];
  assert.deepEqual(listTexts(content), ["a", "b", "c"]);
  const replaced = ["1", "", { type: "text", text: "2" }, image, { type: "file", data: { text: "3" } }];
  assert.deepEqual(replaceTexts(content, ["1", "2", "3"]), replaced);
  assert.equal(replaceTexts("a", ["1"]), "1");
  assert.equal(replaceTexts(undefined, []), undefined);
});

test("files and pictures stay as they are when texts are replaced", () => {
  const bytes = new Uint8Array([1, 2]);
  const address = new URL("https://shop.example/cat.png");
  const parts = [bytes, address].map((data) => ({ type: "file", data }));
  const nested = [bytes, address].map((data) => ({ type: "file", data: { type: "data", data } }));
  const content = [{ type: "text", text: "a" }, ...parts, ...nested];
  const replaced = replaceTexts(content, ["1"]);
  assert.deepEqual(replaced, [{ type: "text", text: "1" }, ...parts, ...nested]);
  assert.equal((replaced[1] as { data: unknown }).data, bytes);
  assert.equal((replaced[2] as { data: unknown }).data, address);
});
