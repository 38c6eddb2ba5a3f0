import assert from 'node:assert/strict';
import { lineLenses, topLenses, type LensFacts } from '../../../extension/features/lensText';
import { profile, result, node, kernel } from './fixture';

const lines = [
  { line: 3, ops: ['a#matmul'] },
  { line: 4, ops: ['b#add', 'c#relu'] },
  { line: 5, ops: ['y#softmax'] },
];
const idle = { kind: 'idle' } as const;
const facts = (more: Partial<LensFacts> = {}): LensFacts => ({
  result: result(),
  fresh: true,
  detail: 'full',
  ...more,
});
const titles = (f: LensFacts) => lineLenses(lines, f).map(({ line, title }) => `${line}: ${title}`);

describe('lens text', () => {
  it('says per line in which kernel the ops are, what that saves, and why not in another', () => {
    assert.deepEqual(titles(facts()), [
      '3: fused into k0 (matmul + add + relu) · saves 12.0 MiB, 2 launches',
      '4: fused into k0 (matmul + add + relu) · saves 12.0 MiB, 2 launches · ' +
        'not fused with y: NEEDS_GLOBAL_SYNC softmax needs the whole row first; rows span 4 workgroups.',
      '5: k1, a kernel of its own · not fused with c: NEEDS_GLOBAL_SYNC softmax needs the whole row first; rows span 4 workgroups.',
    ]);
  });

  it('puts the measured time beside the estimate', () => {
    const [first] = titles(facts({ profile: profile() }));
    assert.equal(
      first,
      '3: fused into k0 (matmul + add + relu) · 41 µs measured (est. 38 µs) · saves 12.0 MiB, 2 launches',
    );
    assert.deepEqual(titles(facts({ profile: profile(), detail: 'brief' })), [
      '3: k0 · 41 µs',
      '4: k0 · 41 µs',
      '5: k1 · 7.0 µs',
    ]);
  });

  it('drops a time when the kernel is no longer the one that was measured', () => {
    const changed = result();
    const after = {
      ...changed.after,
      kernels: changed.after.kernels.map((k) => (k.id === 'k1' ? { ...k, hash: 'other' } : k)),
    };
    const [, , third] = titles(
      facts({ result: { ...changed, after }, profile: profile(), detail: 'brief' }),
    );
    assert.equal(third, '5: k1');
  });

  it('keeps every line while nothing is known, while it is stale, and where it is not understood', () => {
    assert.deepEqual(titles({ fresh: false, detail: 'full' }), [
      '3: analysing…',
      '4: analysing…',
      '5: analysing…',
    ]);
    for (const title of titles(facts({ fresh: false }))) assert.match(title, / · updating…$/);
    const range = { start: { line: 9, column: 0 }, end: { line: 9, column: 4 } };
    const faulty = result({
      diagnostics: [{ severity: 'error', code: 'UNKNOWN_OP', message: 'no such op', range }],
    });
    const unknown = lineLenses(
      [8, 9].map((line) => ({ line, ops: ['q#nope'] })),
      facts({ result: faulty }),
    );
    assert.deepEqual(
      unknown.map(({ line, title, nodes }) => ({ line, title, nodes })),
      [
        { line: 8, title: 'computed at compile time', nodes: [] },
        { line: 9, title: 'not understood: see Problems', nodes: [] },
      ],
    );
  });

  it('merges ops that end in several kernels', () => {
    const base = result();
    const split = {
      ...base,
      after: {
        ...base.after,
        kernels: [kernel('k0', ['a#matmul', 'b#add']), kernel('k1', ['c#relu', 'y#softmax'])],
      },
      decisions: [],
    };
    assert.equal(titles(facts({ result: split }))[1], '4: add in k0 · relu in k1');
  });

  it('words ops that are in no kernel', () => {
    const base = result();
    const nodes = [
      node('reshape', 'a', ['x'], 3, { kind: 'view', id: 'a#matmul' }),
      node('nonzero', 'y', ['a'], 5, {
        kind: 'opaque',
        id: 'y#softmax',
        unsupported: 'its size depends on data',
      }),
    ];
    const only = {
      ...base,
      graph: { ...base.graph, nodes },
      after: { ...base.after, kernels: [] },
      decisions: [],
    };
    assert.deepEqual(titles(facts({ result: only })), [
      '3: a view: folded into index maps, costs nothing',
      '4: computed at compile time',
      '5: not supported: its size depends on data',
    ]);
  });

  it('says which kernels are as they were measured to be fastest', () => {
    const { after } = result();
    const tuned = { params: { workgroup: 128 }, medianUs: 10, defaultUs: 13, adapter: 'Some GPU' };
    const kernels = after.kernels.map((k) => (k.id === 'k1' ? { ...k, tuned } : k));
    const facts = { result: result({ after: { ...after, kernels } }), fresh: true } as const;
    const lines = [
      { line: 3, ops: ['a#matmul'] },
      { line: 5, ops: ['y#softmax'] },
    ];
    const [other, shown] = lineLenses(lines, { ...facts, detail: 'full' });
    assert.match(shown?.title ?? '', /tuned: workgroup = 128 \(1\.30× on Some GPU\)/);
    assert.doesNotMatch(other?.title ?? '', /tuned/);
  });
});

describe('lenses at the top', () => {
  const top = (f: LensFacts, state: Parameters<typeof topLenses>[1] = idle) =>
    topLenses(f, state).map(({ title }) => title);

  it('sums up the plan and offers graph and profile', () => {
    assert.deepEqual(top(facts()), [
      '4 ops → 2 kernels · est. 3.1×',
      'Show graph',
      'Profile',
      'Tune',
    ]);
  });

  it('shows the measured gain, the verification and a software adapter for what it is', () => {
    assert.deepEqual(top(facts({ profile: profile() })), [
      '4 ops → 2 kernels · measured 2.8× (est. 3.1×) · verified · on Acme One',
      'Show graph',
      'Profile',
      'Tune',
      'Clear',
    ]);
    const [first] = topLenses(facts({ profile: profile(true) }), idle);
    assert.match(first?.title ?? '', / · verified · software adapter$/);
    assert.match(first?.tooltip ?? '', /on SwiftShader of devbox\. .*times say little about a GPU/);
    const wrong = { ...profile(), verification: { ok: false, outputs: [], kernels: [] } };
    assert.match(top(facts({ profile: wrong }))[0] ?? '', /NOT VERIFIED/);
  });

  it('shows the gain of a plan that has changed since for what it is', () => {
    const changed = result();
    const [first, ...others] = changed.after.kernels;
    assert.ok(first);
    const after = { ...changed.after, kernels: [{ ...first, hash: 'other' }, ...others] };
    const stale = facts({ result: { ...changed, after }, profile: profile() });
    assert.equal(
      top(stale)[0],
      '4 ops → 2 kernels · est. 3.1× · measured before the last edit: 2.8×',
    );
    assert.match(topLenses(stale, idle)[2]?.tooltip ?? '', /no longer those that were measured/);
    // A size that is bound otherwise changes no structure, but the work.
    const larger = { ...changed.after, kernels: [{ ...first, bytesRead: 4096 }, ...others] };
    assert.match(
      top(facts({ result: { ...changed, after: larger }, profile: profile() }))[0] ?? '',
      /before the last edit/,
    );
  });

  it('counts errors and expectations that do not hold', () => {
    const faulty = result({
      diagnostics: [
        { severity: 'error', code: 'UNKNOWN_OP', message: 'no' },
        { severity: 'error', code: 'EXPECTATION_FAILED', message: 'kernels <= 1' },
      ],
      expectations: [{ text: 'kernels <= 1', held: false, actual: '2 kernels' }],
    });
    assert.deepEqual(top(facts({ result: faulty }))[2], '1 error, 1 expectation not met');
  });

  it('turns Profile into progress with a way out', () => {
    const running = {
      kind: 'running',
      progress: { stage: 'fused', done: 2, total: 5 },
    } as const;
    assert.deepEqual(
      top(facts(), running)[2],
      'Profiling: measuring the fused kernels, 2 of 5 (cancel)',
    );
  });

  it('says why there is nothing', () => {
    assert.equal(top({ fresh: false, detail: 'full' })[0], 'analysing…');
    assert.equal(
      top({ fresh: false, detail: 'full', problem: 'a.onnx no longer exists.' })[0],
      'a.onnx no longer exists.',
    );
  });
});
