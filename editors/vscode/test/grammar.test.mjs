// The TextMate grammar on rules, and on every file that ships.
import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { createRequire } from "node:module";
import test from "node:test";
import oniguruma from "vscode-oniguruma";
import textmate from "vscode-textmate";

const require = createRequire(import.meta.url);
await oniguruma.loadWASM(readFileSync(require.resolve("vscode-oniguruma/release/onig.wasm")).buffer);
const registry = new textmate.Registry({
  onigLib: Promise.resolve({ createOnigScanner: (patterns) => new oniguruma.OnigScanner(patterns), createOnigString: (text) => new oniguruma.OnigString(text) }),
  loadGrammar: async () => textmate.parseRawGrammar(readFileSync(new URL("../syntaxes/hnf.tmLanguage.json", import.meta.url), "utf8"), "hnf.json"),
});
const grammar = await registry.loadGrammar("source.hnf");

function scopes(line) {
  const found = {};
  for (const token of grammar.tokenizeLine(line, textmate.INITIAL).tokens) found[line.slice(token.startIndex, token.endIndex).trim()] = token.scopes.at(-1);
  return found;
}

test("a rule has its colours", () => {
  const head = scopes('rule where_x "where" # why');
  assert.equal(head.rule, "keyword.declaration.hnf");
  assert.equal(head.where_x, "entity.name.function.hnf");
  assert.equal(head['"where"'], "string.quoted.double.hnf");
  assert.equal(head["# why"], "comment.line.number-sign.hnf");
  const body = scopes("    where(m, x) => sum[k](1.5e-3 * pi) where finite(x)");
  assert.equal(body["=>"], "keyword.operator.arrow.hnf");
  assert.equal(body["1.5e-3"], "constant.numeric.hnf");
  assert.equal(body.pi, "constant.language.hnf");
  assert.equal(body.sum, "support.function.hnf");
  assert.equal(body.where, "keyword.control.hnf");
  assert.equal(body.finite, "support.function.hnf");
});

test("every word of a shipped file has a colour", () => {
  const rules = new URL("../../../rules/", import.meta.url);
  for (const name of readdirSync(rules).filter((file) => file.endsWith(".hnf"))) {
    for (const line of readFileSync(new URL(name, rules), "utf8").split("\n")) {
      for (const token of grammar.tokenizeLine(line, textmate.INITIAL).tokens) {
        const text = line.slice(token.startIndex, token.endIndex);
        if (/[A-Za-z0-9]/.test(text)) assert.ok(token.scopes.length > 1, `${name}: ${line}: ${text}`);
      }
    }
  }
});
