// SPDX-License-Identifier: MIT
// Uses VS Code in Chromium as a person would.
// complete: opens the file, types at its end, waits for ghost text, takes it with Tab, saves.
// missing: opens the file, reads what the person is told, then sets maskstore.path right.
// Usage: node drive.mjs JSON, with the fields read below. Prints one JSON object: ghost or notice, and seconds.
import { createRequire } from 'module';
import * as fs from 'fs';

const task = JSON.parse(process.argv[2]);
const { chromium } = createRequire(task.modules + '/')('playwright-core');
// For a machine that is busy with something else too; alone, each step takes a few seconds.
const patienceMs = 120000;
const started = Date.now();
const seconds = {};
const mark = name => (seconds[name] = (Date.now() - started) / 1000);

const ghostSelector = '.ghost-text-decoration, .ghost-text, .ghost-text-decoration-preview';

// The ghost text as it stands on the screen, from top to bottom.
async function ghostText(page) {
  return page.evaluate(selector => {
    const clean = text => text.replaceAll('\u00a0', ' ').replaceAll('\u200b', '');
    const all = [...document.querySelectorAll(selector)];
    const outer = all.filter(one => !all.some(other => other !== one && other.contains(one)));
    const place = one => one.getBoundingClientRect();
    outer.sort((a, b) => place(a).top - place(b).top || place(a).left - place(b).left);
    return outer.map(one => clean(one.textContent)).join('');
  }, ghostSelector);
}

async function waitFor(what, probe, limitMs) {
  const end = Date.now() + limitMs;
  for (;;) {
    const value = await probe();
    if (value) {
      return value;
    }
    if (Date.now() > end) {
      throw new Error(`${what}: not within ${limitMs / 1000} s`);
    }
    await new Promise(done => setTimeout(done, 50));
  }
}

// Ghost text that stays as it is for 0.4 s: its lines do not all appear at once.
async function steadyGhostText(page) {
  const first = await ghostText(page);
  await page.waitForTimeout(first ? 400 : 0);
  return first === (await ghostText(page)) ? first : '';
}

// While the model loads the server answers with nothing. The last key is then deleted and typed again, each time after
// twice as long, as that cancels the request before.
async function typeUntilGhost(page, text) {
  await page.keyboard.type(text, { delay: 60 });
  for (const seconds of [5, 10, 20, 40, 80]) {
    try {
      return await waitFor('ghost text', () => steadyGhostText(page), seconds * 1000);
    } catch {
      await page.keyboard.press('Backspace');
      await page.keyboard.type(text.slice(-1));
    }
  }
  throw new Error('no ghost text');
}

// Changes the folder's settings by the editor's own commands, as this code-server does not watch files.
async function setFolderSettings(page, settings) {
  await page.keyboard.press('F1');
  await page.keyboard.type('Preferences: Open Workspace Settings (JSON)', { delay: 5 });
  await page.locator('.quick-input-list .monaco-list-row', { hasText: 'Workspace Settings (JSON)' }).first().click();
  await page.locator('.view-lines', { hasText: 'startupEditor' }).click();
  await page.keyboard.press('Control+A');
  await page.keyboard.insertText(JSON.stringify(settings));
  await page.keyboard.press('Control+S');
}

async function openFile(page) {
  await page.goto(task.url);
  await page.locator('.editor-group-container .view-lines').first().waitFor();
  mark('editor open');
}

// Other parts of the window may take the keyboard while it is built up, and hold editors too (the chat's input).
async function toEndOfFile(page) {
  await waitFor('the cursor at the end of the file', async () => {
    await page.locator('.editor-group-container .view-lines').first().click();
    await page.keyboard.press('Control+End');
    await page.waitForTimeout(300);
    return page.getByText(`Ln ${task.before.split('\n').length}, Col 1`).count();
  }, patienceMs);
}

async function complete(page) {
  await toEndOfFile(page);
  const ghost = await typeUntilGhost(page, task.typed);
  mark('ghost text');
  await page.screenshot({ path: task.pictures + '/vscode-ghost-text.png' });
  await page.keyboard.press('Tab');
  await page.waitForTimeout(500);
  await page.screenshot({ path: task.pictures + '/vscode-accepted.png' });
  await page.keyboard.press('Control+S');
  await waitFor('the file is saved', () => fs.readFileSync(task.file, 'utf8') !== task.before, patienceMs);
  mark('saved');
  return { ghost };
}

// Whether a process has `word` in its command line.
function runs(word) {
  return fs.readdirSync('/proc').some(entry => {
    try {
      return /^\d+$/.test(entry) && fs.readFileSync(`/proc/${entry}/cmdline`, 'utf8').split('\0').includes(word);
    } catch {
      return false; // it ended meanwhile
    }
  });
}

async function missing(page) {
  const toast = page.locator('.notification-toast', { hasText: 'cannot run' });
  const notice = await toast.first().innerText();
  mark('told of the missing server');
  await page.screenshot({ path: task.pictures + '/vscode-missing-binary.png' });
  await setFolderSettings(page, { 'maskstore.path': task.server });
  await waitFor('the server runs', () => runs(task.model), patienceMs);
  mark('server runs');
  return { notice };
}

const browser = await chromium.launch({ executablePath: task.chromium, args: ['--no-sandbox'] });
const page = await browser.newPage({ viewport: { width: 1000, height: 700 } });
page.setDefaultTimeout(patienceMs);
page.setDefaultNavigationTimeout(patienceMs);
try {
  await openFile(page);
  const seen = await { complete, missing }[task.act](page);
  console.log(JSON.stringify({ ...seen, seconds }));
} catch (error) {
  await page.screenshot({ path: `${task.pictures}/vscode-${task.act}-failed.png` });
  throw error;
} finally {
  await browser.close();
}
