// A stand-in for the editor's own module: what the language client asks of it, kept where a test can see it.
"use strict";
const { pathToFileURL, fileURLToPath } = require("node:url");

class Disposable { constructor(end = () => {}) { this.dispose = end; } static from(...all) { return new Disposable(() => all.forEach((each) => each.dispose())); } }
class EventEmitter {
  constructor() { this.all = new Set(); this.event = (listener, self) => { const own = self ? listener.bind(self) : listener; this.all.add(own); return new Disposable(() => this.all.delete(own)); }; }
  fire(value) { for (const listener of [...this.all]) listener(value); }
  dispose() { this.all.clear(); }
}
class CancellationTokenSource { constructor() { this.emitter = new EventEmitter(); this.token = { isCancellationRequested: false, onCancellationRequested: this.emitter.event }; } cancel() { this.token.isCancellationRequested = true; this.emitter.fire(); } dispose() {} }
class Position { constructor(line, character) { this.line = line; this.character = character; } }
class Range { constructor(start, end, line, character) { [this.start, this.end] = typeof start === "number" ? [new Position(start, end), new Position(line, character)] : [start, end]; } }
class Uri { constructor(text) { this.text = text; this.scheme = text.split(":")[0]; this.fsPath = this.scheme === "file" ? fileURLToPath(text) : text; this.path = this.fsPath; } toString() { return this.text; } with() { return this; } static parse(text) { return new Uri(text); } static file(path) { return new Uri(pathToFileURL(path).href); } }
class Plain { constructor(...given) { this.given = given; } }
class MarkdownString { constructor(value = "") { this.value = value; } appendMarkdown(text) { this.value += text; return this; } appendCodeblock(text) { this.value += text; return this; } }
class Hover { constructor(contents, range) { this.contents = contents; this.range = range; } }
class Diagnostic { constructor(range, message, severity) { Object.assign(this, { range, message, severity }); } }
class TextEdit { constructor(range, newText) { Object.assign(this, { range, newText }); } static replace(range, text) { return new TextEdit(range, text); } static insert(at, text) { return new TextEdit(new Range(at, at), text); } static delete(range) { return new TextEdit(range, ""); } }
class WorkspaceEdit { constructor() { this.edits = []; } set(uri, edits) { this.edits.push([uri, edits]); } }
class CodeActionKind { constructor(value) { this.value = value; } static Empty = new CodeActionKind(""); append(part) { return new CodeActionKind(`${this.value}.${part}`); } contains() { return true; } }
class CodeAction { constructor(title, kind) { Object.assign(this, { title, kind }); } }
class CompletionItem { constructor(label, kind) { Object.assign(this, { label, kind }); } }

// an enumeration whose members have numbers in order
const numbered = (...names) => Object.fromEntries(names.flatMap((name, i) => [[name, i], [i, name]]));
const state = { providers: {}, diagnostics: new Map(), errors: [], commands: {}, settings: {}, documents: [], lines: [] };
const events = new Proxy({}, { get: (made, name) => (made[name] ??= new EventEmitter()) });
const kinds = "CompletionItem Hover SignatureHelp Definition Reference DocumentSymbol Rename FoldingRange CodeActions DocumentFormattingEdit DocumentSemanticTokens InlayHints".split(" ");
const registering = Object.fromEntries(kinds.map((kind) => [`register${kind}Provider`, (_selector, provider) => { state.providers[kind] = provider; return new Disposable(() => delete state.providers[kind]); }]));

const channel = { append: (text) => state.lines.push(text), appendLine: (text) => state.lines.push(text), clear() {}, show() {}, hide() {}, dispose() {}, replace() {}, info() {}, error() {}, warn() {}, debug() {}, trace() {} };
const known = {
  Disposable, EventEmitter, CancellationTokenSource, Position, Range, Uri, MarkdownString, Hover, Diagnostic, TextEdit, WorkspaceEdit, CodeActionKind, CodeAction, CompletionItem,
  version: "1.90.0",
  env: { appName: "stand-in", language: "en", uriScheme: "vscode", appHost: "desktop", openExternal: async () => true, clipboard: {}, isTelemetryEnabled: false, onDidChangeTelemetryEnabled: events.telemetry.event },
  workspace: {
    get textDocuments() { return state.documents; }, workspaceFolders: undefined, name: "w", isTrusted: true, fs: {}, notebookDocuments: [],
    getConfiguration: () => ({ get: (name, other) => state.settings[name] ?? other, inspect: () => undefined, has: () => false, update: async () => {} }),
    getWorkspaceFolder: () => undefined, createFileSystemWatcher: () => ({ onDidCreate: events.created.event, onDidChange: events.changed.event, onDidDelete: events.deleted.event, dispose() {} }),
    applyEdit: async () => true, asRelativePath: (path) => String(path), registerTextDocumentContentProvider: () => new Disposable(),
  },
  window: {
    activeTextEditor: undefined, visibleTextEditors: [], tabGroups: { all: [], onDidChangeTabs: events.tabs.event, onDidChangeTabGroups: events.tabGroups.event }, state: { focused: true },
    createOutputChannel: () => channel, showErrorMessage: async (text) => { state.errors.push(text); }, showInformationMessage: async () => {}, showWarningMessage: async () => {},
    withProgress: async (_options, task) => task({ report() {} }, new CancellationTokenSource().token), showTextDocument: async () => ({}),
  },
  languages: {
    match: (selector, document) => ([selector].flat().some((each) => each.language === document.languageId) ? 10 : 0),
    createDiagnosticCollection: () => ({ set: (uri, all) => { state.diagnostics.set(String(uri), all); events.diagnosed.fire(all); }, delete: (uri) => state.diagnostics.delete(String(uri)), clear() {}, dispose() {}, get: (uri) => state.diagnostics.get(String(uri)), has: () => false, forEach() {} }),
    ...registering,
  },
  commands: { registerCommand: (name, run) => { state.commands[name] = run; return new Disposable(() => delete state.commands[name]); }, executeCommand: async () => {} },
  extensions: { all: [], getExtension: () => undefined, onDidChange: events.extensions.event },
  DiagnosticSeverity: numbered("Error", "Warning", "Information", "Hint"), DiagnosticTag: { Unnecessary: 1, Deprecated: 2 },
  TextDocumentSaveReason: { Manual: 1, AfterDelay: 2, FocusOut: 3 }, TextDocumentChangeReason: { Undo: 1, Redo: 2 }, CodeActionTriggerKind: { Invoke: 1, Automatic: 2 },
  CompletionTriggerKind: numbered("Invoke", "TriggerCharacter", "TriggerForIncompleteCompletions"), SignatureHelpTriggerKind: { Invoke: 1, TriggerCharacter: 2, ContentChange: 3 },
  CompletionItemKind: numbered("Text", "Method", "Function", "Constructor", "Field", "Variable", "Class", "Interface", "Module", "Property", "Unit", "Value", "Enum", "Keyword", "Snippet"),
  CompletionItemTag: { Deprecated: 1 }, SymbolKind: numbered("File", "Module", "Namespace", "Package", "Class", "Method", "Property", "Field", "Constructor", "Enum", "Interface", "Function"), SymbolTag: { Deprecated: 1 },
  FoldingRangeKind: { Comment: 1, Imports: 2, Region: 3 }, InlayHintKind: { Type: 1, Parameter: 2 }, ProgressLocation: { SourceControl: 1, Window: 10, Notification: 15 },
  ExtensionKind: { UI: 1, Workspace: 2 }, LogLevel: numbered("Off", "Trace", "Debug", "Info", "Warning", "Error"), ViewColumn: {}, StatusBarAlignment: {}, EndOfLine: { LF: 1, CRLF: 2 },
};
// an event that nobody fires, or a class that the client only derives its own from
const rest = (owner) => new Proxy(owner, { get: (own, name) => (name in own || typeof name === "symbol" ? own[name] : /^on(Did|Will)/.test(name) ? events[name].event : /^register/.test(name) ? () => new Disposable() : undefined) });
for (const name of ["workspace", "window", "languages"]) known[name] = rest(known[name]);
const classes = new Map();
module.exports = new Proxy(known, {
  get: (own, name) => {
    if (name in own || typeof name === "symbol" || name === "__esModule" || name === "default") return own[name];
    if (!classes.has(name)) classes.set(name, class extends Plain {});
    return classes.get(name);
  },
});
module.exports.standIn = { state, events, Document: class { constructor(path, text) { this.uri = Uri.file(path); this.languageId = "hnf"; this.version = 1; this.text = text; this.isClosed = false; this.fileName = path; } getText() { return this.text; } } };
