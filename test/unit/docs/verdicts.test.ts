// docs/verdicts.md can't lie: every example on it is compiled and shows the code that it stands under,
// and every code is either explained or listed as reserved.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { compile } from '../../../compiler';
import { attr, BOOL, type Bytes, FLOAT, graph, model, node, value } from '../onnx/encoder';
import { HARD_CODES, SOFT_CODES, USER_CODES } from '../../../compiler/fusion/verdicts';
import type { Tuning } from '../../../compiler/tuning';
import { readRecords, tuningFor } from '../../../tuner/records';

const PAGE = readFileSync('docs/verdicts.md', 'utf8');
const [EXPLAINED = '', RESERVED = ''] = PAGE.split('\n## Reserved\n');

interface Section {
  readonly code: string;
  readonly text: string;
}

const sections: Section[] = EXPLAINED.split('\n### ')
  .slice(1)
  .map((text) => ({ code: text.slice(0, text.indexOf('\n')), text }));

const branch = (op: string): Bytes =>
  graph({ nodes: [node(op, ['x'], ['o'])], outputs: [value('o', FLOAT, [1e6])] });

/** Examples that no `.fuse` file can show, by code: the page has them in words. */
const MODELS: Readonly<Record<string, Uint8Array>> = {
  CONTROL_FLOW: model({
    nodes: [
      node('If', ['c'], ['y'], {
        attrs: [
          attr.graph('then_branch', branch('Exp')),
          attr.graph('else_branch', branch('Tanh')),
        ],
      }),
      node('Neg', ['y'], ['z']),
    ],
    inputs: [value('c', BOOL, []), value('x', FLOAT, [1e6])],
    outputs: [value('z', FLOAT, [1e6])],
  }),
};

/** The tuning records that an example is compiled with, where it shows some. */
function tuningIn(text: string): Tuning | undefined {
  const json = /```json\n([\s\S]*?)```/.exec(text)?.[1];
  if (json === undefined) return undefined;
  const read = readRecords(json);
  if (!read.ok) assert.fail(read.reason);
  const [record] = read.records.values();
  const version = record?.version ?? '';
  return tuningFor(read.records, { file: 'example.fuse', version, adapter: record?.adapter });
}

/** All codes in the answer to a file: of edges, of kernels, of the file as a whole. */
function codesOf(file: string, bytes: Uint8Array, tuning?: Tuning): Set<string> {
  const { result } = compile({ file, bytes }, tuning ? { tuning } : {});
  const verdicts = [
    ...result.decisions.flatMap((d) => d.verdicts),
    ...result.after.kernels.flatMap((k) => k.notes),
  ];
  return new Set([...verdicts, ...result.diagnostics].map(({ code }) => code));
}

describe('docs/verdicts.md', () => {
  it('explains each code once, or lists it as reserved', () => {
    const reserved = [...RESERVED.matchAll(/`([A-Z_]+)`/g)].map((m) => m[1] ?? '');
    const listed = [...sections.map(({ code }) => code), ...reserved].sort();
    assert.deepEqual(listed, [...HARD_CODES, ...SOFT_CODES, ...USER_CODES].sort());
  });

  for (const { code, text } of sections)
    it(`shows ${code} by an example`, () => {
      const example = /```(fuse|onnx)\n([\s\S]*?)```/.exec(text);
      assert.ok(example, 'no example');
      const bytes =
        example[1] === 'onnx' ? MODELS[code] : new TextEncoder().encode(example[2] ?? '');
      assert.ok(bytes, 'no model');
      const file = example[1] === 'onnx' ? 'example.onnx' : 'example.fuse';
      const codes = codesOf(file, bytes, tuningIn(text));
      assert.ok(codes.has(code), `the example gives ${[...codes].join(', ') || 'nothing'}`);
    });

  it('says of each code where its limit comes from and what to do', () => {
    for (const { code, text } of sections) {
      assert.match(text, /\nLimit: \S/, code);
      assert.match(text, /What to do: \S/, code);
    }
  });

  it('gives no code that it calls reserved', () => {
    const reserved = [...RESERVED.matchAll(/`([A-Z_]+)`/g)].map((m) => m[1] ?? '');
    const sources = ['search', 'policy', 'plan', 'decisions', 'destination', 'horizontal']
      .map((name) => readFileSync(`compiler/fusion/${name}.ts`, 'utf8'))
      .concat(
        ['schedule', 'limits', 'rowParams', 'time'].map((name) =>
          readFileSync(`compiler/schedule/${name}.ts`, 'utf8'),
        ),
      )
      .join('\n');
    for (const code of reserved) assert.ok(!sources.includes(`'${code}'`), code);
  });
});
