// The bundle in a stand-in for the editor, with the real server: what activate() starts, and what a person sees of it.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { existsSync, mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { spawnSync } from "node:child_process";
import Module from "node:module";
import test from "node:test";
import { fileURLToPath } from "node:url";

const require = createRequire(import.meta.url), root = fileURLToPath(new URL("../../..", import.meta.url));
const vscode = require("./vscode.cjs"), { state, events, Document } = vscode.standIn;
const load = Module._load;
Module._load = (name, ...rest) => (name === "vscode" ? vscode : load(name, ...rest));
const extension = require("../dist/extension.js");

// the server of this checkout, as a program; HNFC_PYTHON or the checkout's own environment runs it
const python = [process.env.HNFC_PYTHON, join(root, ".venv", "bin", "python"), "python3"].find((each) => each && (each === "python3" || existsSync(each)));
process.env.PYTHONPATH = [root, process.env.PYTHONPATH].filter(Boolean).join(delimiter);
const served = spawnSync(python, ["-c", "import hnfc.language_server.server"], { encoding: "utf8" }).status === 0;
const program = join(mkdtempSync(join(tmpdir(), "hnfc-")), "hnfc");
writeFileSync(program, `#!/bin/sh\nexec ${python} -m hnfc "$@"\n`, { mode: 0o755 });

const until = async (fits, seconds = 30) => {
  for (const end = Date.now() + 1000 * seconds; Date.now() < end; await new Promise((done) => setTimeout(done, 20))) { const found = fits(); if (found) return found; }
  throw new Error(`it did not come: ${state.lines.join("")}`);
};

test("a program that is not there is named, with the way to install it", async () => {
  state.settings.command = join(tmpdir(), "no-such-hnfc");
  const context = { subscriptions: [] };
  await extension.activate(context);
  assert.equal(context.subscriptions.length, 1);
  assert.equal(state.errors.filter((text) => /no-such-hnfc lsp did not start .*pip install 'hnfc\[lsp\]'/.test(text)).length, 1);
  await extension.deactivate();
});

test("activate starts the server of the setting, and a wrong rule is underlined", { skip: !served && "no Python with hnfc[lsp]: set HNFC_PYTHON" }, async () => {
  const folder = mkdtempSync(join(tmpdir(), "hnfc-")), wrong = "rule relu_scale\n    relu(s * x) => s * relu(x)\n";
  // as an editor does it: the setting changes, and the extension starts the program anew
  state.settings.command = program;
  const context = { subscriptions: [] };
  await extension.activate(context);
  const document = new Document(join(folder, "a.hnf"), wrong);
  state.documents.push(document);
  events.onDidOpenTextDocument.fire(document);
  const found = await until(() => state.diagnostics.get(String(document.uri))?.length && state.diagnostics.get(String(document.uri)));
  assert.match(found[0].message, /its two sides differ/);
  assert.deepEqual([found[0].range.start.line, found[0].range.start.character], [1, 4]);
  for (const kind of ["CompletionItem", "Hover", "SignatureHelp", "Definition", "Reference", "DocumentSemanticTokens", "InlayHints", "Rename", "FoldingRange", "CodeActions", "DocumentFormattingEdit", "DocumentSymbol"]) {
    assert.ok(state.providers[kind], `${kind} is offered`);
  }
  const hover = await state.providers.Hover.provideHover(document, new vscode.Position(1, 5), new vscode.CancellationTokenSource().token);
  assert.match(JSON.stringify(hover), /max\(x, 0\)/);
  document.version = 2;
  document.text = wrong + "    where s >= 0\n";
  events.onDidChangeTextDocument.fire({ document, contentChanges: [{ range: new vscode.Range(0, 0, 2, 0), rangeLength: wrong.length, text: document.text }] });
  await until(() => state.diagnostics.get(String(document.uri))?.length === 0);
  await extension.deactivate();
});
