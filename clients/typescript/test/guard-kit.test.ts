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

test("texts are replaced in the order in which they are listed", () => {
  const image = { type: "image", image: "x" };
  const content = ["a", "", { type: "text", text: "b" }, image, { type: "file", data: { text: "c" } }];
  assert.deepEqual(listTexts(content), ["a", "b", "c"]);
  const replaced = ["1", "", { type: "text", text: "2" }, image, { type: "file", data: { text: "3" } }];
  assert.deepEqual(replaceTexts(content, ["1", "2", "3"]), replaced);
  assert.equal(replaceTexts("a", ["1"]), "1");
  assert.equal(replaceTexts(undefined, []), undefined);
});
