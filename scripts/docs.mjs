// Writes docs/commands-and-settings.md from the manifest, which is where both are described.
//
//   node scripts/docs.mjs           writes the page
//   node scripts/docs.mjs --check   fails when the page isn't up to date

import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import * as prettier from 'prettier';
import { root } from './root.mjs';

const page = 'docs/commands-and-settings.md';

/**
 * @typedef {{type: string, default: unknown, enum?: string[], scope?: string,
 *   markdownDescription: string, markdownEnumDescriptions?: string[]}} Setting
 */

/** @returns {Promise<string>} the page as it should be */
export async function manifestPage() {
  const manifest = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8'));
  const { commands, keybindings, configuration, menus } = manifest.contributes;
  /** @type {Set<string>} */
  const hidden = new Set(
    menus.commandPalette
      .filter((/** @type {{when: string}} */ { when }) => when === 'false')
      .map((/** @type {{command: string}} */ { command }) => command),
  );
  const keyOf = (/** @type {string} */ id) =>
    keybindings.find((/** @type {{command: string}} */ { command }) => command === id)?.key ?? '';
  const lines = [
    '# Commands and settings',
    '',
    '<!-- Made from package.json by scripts/docs.mjs: change it there. -->',
    '',
    '## Commands',
    '',
    '| Command | Key | Id |',
    '| --- | --- | --- |',
    ...commands
      .filter((/** @type {{command: string}} */ { command }) => !hidden.has(command))
      .map(
        (/** @type {{command: string, title: string, category: string}} */ each) =>
          `| ${each.category}: ${each.title} | ${keyOf(each.command)} | \`${each.command}\` |`,
      ),
    '',
    '## Settings',
  ];
  for (const { title, properties } of configuration) {
    lines.push('', `### ${title}`);
    for (const [name, setting] of Object.entries(properties))
      lines.push('', ...settingLines(name, /** @type {Setting} */ (setting)));
  }
  const options = await prettier.resolveConfig(path.join(root, page));
  return prettier.format(`${lines.join('\n')}\n`, { ...options, parser: 'markdown' });
}

/** @param {string} name @param {Setting} setting */
function settingLines(name, setting) {
  const lines = [
    `#### \`${name}\``,
    '',
    setting.markdownDescription,
    '',
    `Default: \`${JSON.stringify(setting.default)}\`. ${scopeText(setting.scope)}`,
  ];
  const { enum: values, markdownEnumDescriptions: texts } = setting;
  if (values)
    lines.push('', ...values.map((value, i) => `- \`${JSON.stringify(value)}\`: ${texts?.[i]}`));
  return lines;
}

/** @param {string | undefined} scope */
function scopeText(scope) {
  return scope === 'machine' ? 'Set for the machine or the user; a workspace can’t set it.' : '';
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const file = path.join(root, page);
  const wanted = await manifestPage();
  if (!process.argv.includes('--check')) writeFileSync(file, wanted);
  else if (readFileSync(file, 'utf8') !== wanted) {
    console.error(`${page} is not up to date: run node scripts/docs.mjs`);
    process.exitCode = 1;
  }
}
