// The manifest and the code agree: what is declared exists, and what exists is declared.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { DEVICES } from '../../../compiler/fusion/devices';

interface Setting {
  scope?: string;
  default?: unknown;
  enum?: unknown[];
  markdownDescription?: string;
}

interface Manifest {
  capabilities: { untrustedWorkspaces: { restrictedConfigurations: string[] } };
  contributes: {
    commands: { command: string; title: string; category: string }[];
    menus: Record<string, { command: string }[]>;
    keybindings: { command: string }[];
    configuration: { properties: Record<string, Setting> }[];
    views: Record<string, { id: string; icon: string }[]>;
    viewsContainers: { activitybar: { icon: string }[] };
    viewsWelcome: { view: string; contents: string }[];
    customEditors: { viewType: string }[];
    walkthroughs: {
      id: string;
      steps: { description: string; completionEvents: string[]; media: { markdown: string } }[];
    }[];
  };
}

const { contributes, capabilities } = JSON.parse(readFileSync('package.json', 'utf8')) as Manifest;
const read = (file: string) => readFileSync(`extension/${file}`, 'utf8');
const declared = contributes.commands.map(({ command }) => command).sort();
const settings = Object.assign(
  {},
  ...contributes.configuration.map(({ properties }) => properties),
) as Record<string, Setting>;

describe('the manifest', () => {
  it('declares exactly the commands that are registered', () => {
    const registered = [...read('features/commands.ts').matchAll(/this\.add\(\s*'([^']+)'/g)];
    assert.deepEqual(registered.map(([, id]) => id).sort(), declared);
    for (const { title, category } of contributes.commands) {
      assert.equal(category, 'Fusion Lens');
      assert.match(title, /^[A-Z]/);
    }
  });

  it('names only declared commands in menus, keybindings, welcome texts and the walkthrough', () => {
    const named = [...Object.values(contributes.menus).flat(), ...contributes.keybindings].map(
      ({ command }) => command,
    );
    const texts = [
      ...contributes.viewsWelcome.map(({ contents }) => contents),
      ...contributes.walkthroughs.flatMap(({ steps }) =>
        steps.flatMap(({ description, completionEvents }) => [description, ...completionEvents]),
      ),
    ].join('\n');
    for (const [, id] of texts.matchAll(/(?:command:|onCommand:)([\w.]+)/g)) if (id) named.push(id);
    for (const id of named) assert.ok(declared.includes(id), `${id} is not declared`);
  });

  it('reads every setting that it declares, and no other', () => {
    const readKeys = [...read('services/settings.ts').matchAll(/get\('([^']+)'\)/g)];
    assert.deepEqual(
      readKeys.map(([, key]) => `fusionLens.${key ?? ''}`).sort(),
      Object.keys(settings).sort(),
    );
    for (const [name, { markdownDescription, default: byDefault }] of Object.entries(settings)) {
      assert.ok(markdownDescription, `${name} is not described`);
      assert.notEqual(byDefault, undefined, `${name} has no default`);
    }
  });

  it('lets no workspace choose what program runs', () => {
    for (const name of ['nodePath', 'profile.runner', 'profile.environment']) {
      assert.equal(settings[`fusionLens.${name}`]?.scope, 'machine', name);
      assert.ok(
        capabilities.untrustedWorkspaces.restrictedConfigurations.includes(`fusionLens.${name}`),
      );
    }
  });

  it('offers the device profiles that are shipped', () => {
    assert.deepEqual(settings['fusionLens.device']?.enum, [
      'auto',
      ...DEVICES.map(({ name }) => name),
    ]);
  });

  it('is what the page of commands and settings says', () => {
    const { status, stderr } = spawnSync(process.execPath, ['scripts/docs.mjs', '--check'], {
      encoding: 'utf8',
    });
    assert.equal(status, 0, stderr);
  });

  it('names views, editors and files that exist', () => {
    for (const { id } of contributes.walkthroughs)
      assert.ok(read('features/commands.ts').includes(`#${id}'`), id);
    for (const { viewType } of contributes.customEditors)
      assert.ok(read('webviewHost/graphViews.ts').includes(`'${viewType}'`), viewType);
    const trees = read('features/kernelTree.ts') + read('features/fileTree.ts');
    const views = Object.values(contributes.views).flat();
    for (const { id } of views) assert.ok(trees.includes(`'${id}'`), id);
    for (const file of [
      ...views.map(({ icon }) => icon),
      ...contributes.viewsContainers.activitybar.map(({ icon }) => icon),
      ...contributes.walkthroughs.flatMap(({ steps }) => steps.map(({ media }) => media.markdown)),
      'media/graph-light.svg',
      'media/graph-dark.svg',
    ])
      assert.ok(existsSync(file), `${file} is missing`);
  });
});
