// SPDX-License-Identifier: MIT
// The VS Code side of maskstore: starts the server, lets vscode-languageclient show its inline completions, restarts it
// when a setting changes. Everything else is the server's.
import * as vscode from 'vscode';
import { LanguageClient, LanguageClientOptions, State } from 'vscode-languageclient/node';
import { Command, findExecutable, serverArguments } from './command';

let client: LanguageClient | undefined;
let log: vscode.LogOutputChannel;
// Starts and stops follow one another, so that two quick changes of settings never leave two servers.
let queue: Promise<void> = Promise.resolve();

function workspaceFolder(): string | undefined {
  return vscode.workspace.workspaceFolders?.[0]?.uri.fsPath;
}

// Tells the person what is wrong and offers the two places where it can be mended.
function report(message: string): void {
  log.error(message);
  void vscode.window.showErrorMessage(message, 'Open Settings', 'Show Log').then(choice => {
    if (choice === 'Open Settings') {
      void vscode.commands.executeCommand('workbench.action.openSettings', 'maskstore.path');
    } else if (choice === 'Show Log') {
      log.show();
    }
  });
}

function serverCommand(): Command | undefined {
  const settings = vscode.workspace.getConfiguration('maskstore');
  const name = settings.get<string>('path') || 'maskstore';
  const file = findExecutable(name, workspaceFolder());
  if (file === undefined) {
    const where = name.includes('/') ? 'no program lies there' : 'it is not on PATH';
    report(
      `maskstore: cannot run "${name}": ${where}. Build it (tools/run in the maskstore checkout), ` +
        'then set maskstore.path to its build/maskstore.',
    );
    return undefined;
  }
  return { file, args: serverArguments(settings) };
}

// The server's settings go to it as flags. What it pulls by workspace/configuration is left to its own defaults: our
// `path` and `trace` mean nothing to it.
const clientOptions: LanguageClientOptions = {
  documentSelector: [
    { language: 'python', scheme: 'file' },
    { language: 'python', scheme: 'untitled' },
  ],
  middleware: { workspace: { configuration: params => params.items.map(() => null) } },
};

async function start(): Promise<void> {
  const command = serverCommand();
  if (command === undefined) {
    return;
  }
  log.info(`starting ${[command.file, ...command.args].join(' ')}`);
  client = new LanguageClient(
    'maskstore',
    'maskstore',
    { command: command.file, args: command.args, options: { cwd: workspaceFolder() } },
    { ...clientOptions, outputChannel: log, traceOutputChannel: log },
  );
  client.onDidChangeState(event => log.info(`server: ${State[event.newState]}`));
  try {
    await client.start();
  } catch (error) {
    report(`maskstore: the server did not start: ${error instanceof Error ? error.message : String(error)}`);
  }
}

async function stop(): Promise<void> {
  const old = client;
  client = undefined;
  try {
    await old?.dispose();
  } catch (error) {
    log.warn(`the old server did not stop in order: ${String(error)}`);
  }
}

function restart(): Promise<void> {
  queue = queue.then(stop).then(start);
  return queue;
}

export function activate(context: vscode.ExtensionContext): Promise<void> {
  log = vscode.window.createOutputChannel('maskstore', { log: true });
  context.subscriptions.push(
    log,
    vscode.commands.registerCommand('maskstore.restart', restart),
    vscode.commands.registerCommand('maskstore.showLog', () => log.show()),
    vscode.workspace.onDidChangeConfiguration(event => {
      const names = ['path', 'model', 'threads', 'maxContext', 'strategy', 'deadlineMs'];
      if (names.some(name => event.affectsConfiguration(`maskstore.${name}`))) {
        void restart();
      }
    }),
  );
  return restart();
}

export function deactivate(): Promise<void> {
  queue = queue.then(stop);
  return queue;
}
