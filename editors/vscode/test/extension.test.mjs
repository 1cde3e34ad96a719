// The manifest and the bundle: what an editor loads.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import test from "node:test";

const require = createRequire(import.meta.url);
const manifest = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8"));

test("the manifest names files that are there", () => {
  const language = manifest.contributes.languages[0], grammar = manifest.contributes.grammars[0];
  for (const file of [language.configuration, grammar.path, manifest.main]) readFileSync(new URL(`../${file}`, import.meta.url));
  assert.equal(grammar.language, language.id);
  assert.ok(manifest.contributes.configuration.properties["hnfc.command"]);
});

test("the bundle loads nothing but the editor and Node", () => {
  const text = readFileSync(new URL("../dist/extension.js", import.meta.url), "utf8");
  const wanted = new Set([...text.matchAll(/\brequire\("([^"]+)"\)/g)].map((match) => match[1].replace(/^node:/, "")));
  const { builtinModules } = require("node:module");
  assert.deepEqual([...wanted].filter((name) => name !== "vscode" && !builtinModules.includes(name)), []);
  assert.ok(/activate/.test(text) && /deactivate/.test(text));
});
