// The language client: it starts `hnfc lsp`, and says what to install where that fails.
import * as vscode from "vscode";
import { LanguageClient, type LanguageClientOptions, type ServerOptions } from "vscode-languageclient/node";

let client: LanguageClient | undefined;

export async function activate(context: vscode.ExtensionContext): Promise<void> {
  context.subscriptions.push(
    vscode.workspace.onDidChangeConfiguration(async (change) => {
      if (change.affectsConfiguration("hnfc.command")) {
        await deactivate();
        await start();
      }
    }),
  );
  await start();
}

async function start(): Promise<void> {
  const command = vscode.workspace.getConfiguration("hnfc").get<string>("command", "hnfc");
  const server: ServerOptions = { command, args: ["lsp"] };
  const options: LanguageClientOptions = { documentSelector: [{ language: "hnf" }] };
  client = new LanguageClient("hnfc", "hnfc rules", server, options);
  try {
    await client.start();
  } catch (error) {
    client = undefined;
    const reason = error instanceof Error ? error.message : String(error);
    void vscode.window.showErrorMessage(`${command} lsp did not start (${reason}). Install it with: pip install 'hnfc[lsp]', or set hnfc.command.`);
  }
}

export async function deactivate(): Promise<void> {
  await client?.stop();
  client = undefined;
}
