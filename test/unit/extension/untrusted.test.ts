// What comes from files and from pages is not trusted.

import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { withoutLinks } from '../../../extension/common/markdown';
import { readMessage } from '../../../extension/webviewHost/messages';
import { toWire } from '../../../runner/core/wire';

describe('messages of a page', () => {
  it('pass when they have the shape they say', () => {
    const progress = { stage: 'fused', done: 1, total: 2, kernel: 'k0' } as const;
    for (const message of [
      { type: 'ready' },
      { type: 'selected', nodes: ['a'], reveal: false },
      { type: 'selected', nodes: [], kernel: 'k1', reveal: true },
      { type: 'requestCode', id: 3, kernel: 'k0' },
      { type: 'openCode', kernel: 'k0' },
      { type: 'requestSteps', id: 4 },
      { type: 'requestPlanAt', id: 5, step: 2 },
      { type: 'forceFuse', from: 'a', to: 'b' },
      { type: 'pageProgress', id: 1, progress },
      { type: 'pageProgress', id: 1, progress: { stage: 'trial', done: 0, total: 3 } },
      { type: 'exportSvg', svg: '<svg/>' },
      { type: 'log', level: 'error', message: 'no' },
    ])
      assert.deepEqual(readMessage(message), message);
    const value = { list: [1, NaN, undefined], map: new Map([['a', new Float32Array(2)]]) };
    const done = { type: 'pageDone', id: 1, wire: toWire(value) };
    assert.deepEqual(readMessage(done), done);
  });

  it('are dropped otherwise', () => {
    const wire = { root: { ref: 0 }, table: [] };
    for (const message of [
      undefined,
      null,
      'ready',
      [],
      {},
      { type: '__proto__' },
      { type: 'run', command: 'x' },
      { type: 'selected', nodes: 'a', reveal: true },
      { type: 'selected', nodes: ['a', 1], reveal: true },
      { type: 'requestCode', id: '1', kernel: 'k0' },
      { type: 'requestCode', id: NaN, kernel: 'k0' },
      { type: 'requestSteps', id: '4' },
      { type: 'requestPlanAt', id: 5, step: Infinity },
      { type: 'openCode', kernel: { toString: 'k0' } },
      { type: 'forceFuse', from: 'a' },
      { type: 'pageProgress', id: 1, progress: { stage: 'constructor', done: 0, total: 1 } },
      { type: 'pageDone', id: 1, wire: undefined },
      {
        type: 'pageDone',
        id: 1,
        wire: { ...wire, table: [{ kind: 'object', keys: [1], slots: [] }] },
      },
      {
        type: 'pageDone',
        id: 1,
        wire: { ...wire, table: [{ kind: 'buffer', type: 'Uint8Array', buffer: 'x' }] },
      },
      { type: 'exportSvg', svg: 7 },
      { type: 'log', level: 'dispose', message: '' },
    ])
      assert.equal(readMessage(message), undefined, JSON.stringify(message));
  });
});

describe('notifications', () => {
  it('make no links of what stands in a file', () => {
    const shown = withoutLinks('x [More](command:workbench.action.quit) and [a](https://b.c)');
    assert.doesNotMatch(shown, /\]\(/);
    assert.equal(
      shown.replaceAll('\u200b', ''),
      'x [More](command:workbench.action.quit) and [a](https://b.c)',
    );
  });

  it('are all made in one place, which sees to that', () => {
    const files = readdirSync('extension', { recursive: true, encoding: 'utf8' });
    const others = files
      .filter((file) => file.endsWith('.ts') && !file.endsWith('notify.ts'))
      .filter((file) =>
        /show(Information|Warning|Error)Message/.test(readFileSync(`extension/${file}`, 'utf8')),
      );
    assert.deepEqual(others, []);
  });
});
