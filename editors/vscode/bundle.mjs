// SPDX-License-Identifier: MIT
// Bundles the extension into dist/extension.js, and the licences of the packages that went into it into
// dist/NOTICES.txt, as their terms ask for.
import { build } from 'esbuild';
import * as fs from 'fs';
import * as path from 'path';

const result = await build({
  entryPoints: ['src/extension.ts'],
  outfile: 'dist/extension.js',
  bundle: true,
  platform: 'node',
  format: 'cjs',
  target: 'node20',
  external: ['vscode'],
  minify: true,
  metafile: true,
  logLevel: 'info',
});

// node_modules may be a link, so inputs can lie outside this folder: the package is what follows the last node_modules.
function packageFolder(input) {
  const match = /^(.*node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(path.resolve(input));
  return match?.[1];
}

const folders = new Set(Object.keys(result.metafile.inputs).map(packageFolder).filter(Boolean));
const notices = [...folders].sort().map(folder => {
  const { name, version, license } = JSON.parse(fs.readFileSync(path.join(folder, 'package.json'), 'utf8'));
  const file = fs.readdirSync(folder).find(entry => /^licen[cs]e/i.test(entry));
  if (file === undefined) {
    throw new Error(`${name} ${version} has no licence file to pass on`);
  }
  return `${name} ${version} (${license})\n\n${fs.readFileSync(path.join(folder, file), 'utf8').trim()}\n`;
});
fs.writeFileSync('dist/NOTICES.txt', notices.join(`\n${'-'.repeat(78)}\n\n`));
