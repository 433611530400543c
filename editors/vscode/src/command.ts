// SPDX-License-Identifier: MIT
// From settings to the server's command line. No VS Code API in here but the settings object.
import * as fs from 'fs';
import * as os from 'os';
import * as path from 'path';
import type { WorkspaceConfiguration } from 'vscode';

export interface Command {
  readonly file: string;
  readonly args: string[];
}

// Setting and flag, in the order in which they appear on the command line.
const flags: readonly (readonly [string, string])[] = [
  ['model', '--model'],
  ['threads', '--threads'],
  ['maxContext', '--max-context'],
  ['strategy', '--strategy'],
  ['deadlineMs', '--deadline-ms'],
];

// A shell is not involved, so `~` is ours to expand.
function expandHome(name: string): string {
  return name === '~' || name.startsWith('~/') ? path.join(os.homedir(), name.slice(1)) : name;
}

function isExecutable(file: string): boolean {
  try {
    fs.accessSync(file, fs.constants.X_OK);
    return fs.statSync(file).isFile();
  } catch {
    return false;
  }
}

// The full path of `name`, or undefined where it cannot be run. Relative paths with a folder in them count from
// `folder`; a bare name is looked up on PATH.
export function findExecutable(name: string, folder: string | undefined): string | undefined {
  const expanded = expandHome(name.trim());
  if (expanded.includes('/') || path.isAbsolute(expanded)) {
    const full = path.resolve(folder ?? os.homedir(), expanded);
    return isExecutable(full) ? full : undefined;
  }
  return (process.env.PATH ?? '')
    .split(path.delimiter)
    .filter(part => part !== '')
    .map(part => path.join(part, expanded))
    .find(isExecutable);
}

// Unset settings (null or empty) give no flag: the server's own default then holds.
export function serverArguments(settings: WorkspaceConfiguration): string[] {
  const args = ['serve', '--stdio'];
  for (const [name, flag] of flags) {
    const value = settings.get<string | number | null>(name);
    if (value !== undefined && value !== null && value !== '') {
      args.push(flag, name === 'model' ? expandHome(String(value)) : String(value));
    }
  }
  return args;
}
