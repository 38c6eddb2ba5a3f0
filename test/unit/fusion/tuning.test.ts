/**
 * Tuning records in a compile: they act where they fit, and where they don't the result says why.
 */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { type Compilation, compile } from '../../../compiler';
import { deviceByName } from '../../../compiler/fusion/devices';
import { verifyProgram } from '../../../compiler/ir/verify';
import type { KernelTuning, PlanTuning, Tuning } from '../../../compiler/tuning';
import { randomProgram } from '../../gpu/programs';

function of(source: string, tuning?: Partial<Tuning>, dims?: Record<string, number>): Compilation {
  const device = deviceByName('software');
  assert.ok(device);
  const bytes = new TextEncoder().encode(source);
  return compile(
    { file: 'test.fuse', bytes },
    {
      device,
      ...(dims ? { dims } : {}),
      ...(tuning ? { tuning: { kernels: [], plans: [], notes: [], ...tuning } } : {}),
    },
  );
}

const notes = (c: Compilation): string[] =>
  c.result.diagnostics.filter((d) => d.code === 'TUNING_IGNORED').map((d) => d.message);

const CHAIN = 'input x: f32[64, 256]\na = tanh(x)\nb = a * 2.0\ny = exp(b)\noutput y\n';

function record(structure: string, more: Partial<KernelTuning> = {}): KernelTuning {
  return {
    structure,
    settings: { workgroup: 128, tile: 2 },
    medianUs: 10,
    defaultUs: 13,
    adapter: 'Test GPU',
    dims: {},
    expected: true,
    ...more,
  };
}

function structureOf(source: string, dims?: Record<string, number>): string {
  return of(source, undefined, dims).result.after.kernels[0]?.structure ?? '';
}

describe('tuning records', () => {
  it('set the parameters of the kernels of their structure, and are shown', () => {
    const c = of(CHAIN, { kernels: [record(structureOf(CHAIN))] });
    const [k] = c.result.after.kernels;
    assert.deepEqual(k?.schedule, { workgroup: 128, tile: 2 });
    assert.deepEqual(k.tuned, {
      params: { workgroup: 128, tile: 2 },
      medianUs: 10,
      defaultUs: 13,
      adapter: 'Test GPU',
    });
    const [plain] = of(CHAIN).result.after.kernels;
    assert.notEqual(k.hash, plain?.hash);
    assert.equal(k.structure, plain?.structure);
    assert.match(c.kernelCode('k0')?.[0] ?? '', /@workgroup_size\(128/);
    assert.deepEqual(notes(c), []);
    assert.ok(c.result.before.kernels.every((b) => b.tuned === undefined));
  });

  it('belong to a structure, whatever it is called and wherever it stands', () => {
    const renamed =
      'input other: f32[4096, 1024]\nz = softmax(other, axis=-1)\ninput q: f32[64, 256]\nm = exp(tanh(q) * 2.0)\noutput z, m\n';
    const c = of(renamed, { kernels: [record(structureOf(CHAIN))] });
    assert.equal(c.result.after.kernels.filter((k) => k.tuned).length, 1);
    assert.notEqual(structureOf(CHAIN), structureOf(CHAIN.replace('256', '255')));
  });

  it('belong to the sizes that symbolic dims had', () => {
    const source = `dim B = 64\n${CHAIN.replace('64', 'B')}`;
    const kernels = [record(structureOf(source, { B: 32 }))];
    assert.equal(of(source, { kernels }, { B: 32 }).result.after.kernels[0]?.tuned?.medianUs, 10);
    assert.equal(of(source, { kernels }).result.after.kernels[0]?.tuned, undefined);
    // Nothing in a kernel without the dim depends on it.
    const both = `dim C = 5\ninput c: f32[C]\n${CHAIN}`;
    assert.equal(structureOf(both, { C: 5 }), structureOf(both, { C: 6 }));
  });

  it('give way to a schedule line of the file, which is told', () => {
    const source = `${CHAIN}schedule y { workgroup = 32 }\n`;
    const c = of(source, { kernels: [record(structureOf(CHAIN))] });
    assert.equal(c.result.after.kernels[0]?.schedule['workgroup'], 32);
    assert.equal(c.result.after.kernels[0].tuned, undefined);
    assert.match(
      notes(c).join('\n'),
      /k0 \(workgroup = 128, tile = 2.* 'schedule y .*' in the file wins/,
    );
    assert.ok(c.space('k0')?.pinned);
  });

  it('are left with a note where they can’t be, are outdated, or have lost their kernel', () => {
    const with_ = (more: Partial<KernelTuning>): string => {
      const c = of(CHAIN, { kernels: [record(structureOf(CHAIN), more)] });
      assert.equal(c.result.after.kernels[0]?.tuned, undefined);
      assert.ok(c.result.diagnostics.every((d) => d.severity === 'info'));
      return notes(c).join('\n');
    };
    assert.match(
      with_({ settings: { workgroup: 4096 } }),
      /from 1 to \d+, what the adapter allows/,
    );
    assert.match(with_({ settings: { threads: 2 } }), /no parameter 'threads'/);
    assert.match(with_({ settings: { tile: 1.5 } }), /tile must be a whole number from 1 to 16/);
    assert.match(with_({ outdated: 'version 0.0.9 measured it' }), /version 0\.0\.9 measured it/);
    assert.match(with_({ structure: 'gone' }), /belongs to a kernel that its plan doesn’t have/);
    // Of another file, it is nobody's concern.
    assert.equal(with_({ structure: 'gone', expected: false }), '');
  });

  it('never change what a plan computes, on random programs', () => {
    for (let i = 0; i < 10; i++) {
      const source = randomProgram(7919 * i);
      const plain = of(source);
      const kernels = plain.result.after.kernels.flatMap(({ id, structure }) => {
        const first = plain.space(id)?.candidates.find((x) => x.refused === undefined);
        return first ? [record(structure, { settings: first.settings })] : [];
      });
      const tuned = of(source, { kernels });
      const shape = (c: Compilation) => c.result.after.kernels.map((k) => [k.nodes, k.outputs]);
      assert.deepEqual(shape(tuned), shape(plain));
      const applied = tuned.result.after.kernels.filter((k) => k.tuned).length;
      assert.ok(applied >= kernels.length, source);
    }
  });
});

describe('tuned plans', () => {
  const change = (kind: 'cut' | 'fuse', from: string, to: string): PlanTuning['change'] => ({
    ...{ kind, from, to },
  });
  const plan = (more: Partial<PlanTuning> & Pick<PlanTuning, 'change'>): PlanTuning => ({
    makes: [],
    medianUs: 10,
    defaultUs: 12,
    adapter: 'Test GPU',
    dims: {},
    expected: true,
    ...more,
  });
  const nodes = (c: Compilation): string[] =>
    c.result.after.kernels.map((k) => k.nodes.map((n) => n.replace(/^.*#/, '')).join(' '));
  const id = (c: Compilation, op: string): string =>
    c.result.graph.nodes.find((n) => n.op === op)?.id ?? '';

  it('cut an edge, and the decision says what was measured', () => {
    const plain = of(CHAIN);
    assert.equal(nodes(plain).length, 1);
    const cut = change('cut', id(plain, 'mul'), id(plain, 'exp'));
    const c = of(CHAIN, { plans: [plan({ change: cut })] });
    assert.equal(nodes(c).length, 2);
    const verdict = c.result.decisions.find((d) => !d.fused)?.verdicts[0];
    assert.equal(verdict?.code, 'MEASURED_SLOWER');
    assert.equal(verdict.confidence, 'measured');
    assert.match(verdict.message, /measured at 12\.0 µs on Test GPU, apart they took 10\.0 µs/);
    assert.deepEqual(
      c.result.tunedPlans.map((p) => p.change),
      [cut],
    );
    assert.deepEqual(notes(c), []);
  });

  it('make one kernel of two where the model would not', () => {
    const source =
      'input x: f32[10, 10]\na = sum(x)\nb = sum(x, axis=1)\ny = b * 2.0\noutput a, y\nnofuse b -> y\n';
    const apart = nodes(of(source)).length;
    const allowed = source.replace('nofuse b -> y\n', '');
    const plain = of(allowed);
    const [first] = plain.result.decisions;
    assert.ok(first);
    const fuse = change('fuse', first.from, first.to);
    assert.equal(of(allowed, { plans: [plan({ change: fuse })] }).result.tunedPlans.length, 1);
    // Against a line of the file, it isn't made.
    const structure = plain.result.after.kernels.find((k) => k.nodes.length > 1)?.structure ?? '';
    const refused = of(source, { plans: [plan({ change: fuse, makes: [structure] })] });
    assert.equal(nodes(refused).length, apart);
    assert.match(notes(refused).join('\n'), /do not come about/);
  });

  it('give way to a fuse line', () => {
    const source = `${CHAIN}fuse a, y\n`;
    const plain = of(source);
    const cut = change('cut', id(plain, 'mul'), id(plain, 'exp'));
    const c = of(source, { plans: [plan({ change: cut, makes: ['something'] })] });
    assert.equal(nodes(c).length, 1);
    assert.ok(c.result.diagnostics.every((d) => d.severity !== 'error'));
    assert.equal(notes(c).length, 1);
  });

  it('are left with a note where the graph has changed', () => {
    const c = of(CHAIN, { plans: [plan({ change: change('cut', 'gone', 'away') })] });
    assert.match(notes(c).join('\n'), /the graph has changed since/);
    assert.deepEqual(c.result.tunedPlans, []);
  });

  it('are proposed where the model is of two minds', () => {
    const ties = of(
      'input x: f32[4096, 8]\nparam w: f32[8, 8]\nh = relu(x @ w)\ny = sum(h, axis=1)\nz = exp(x) + h\noutput y, z\n',
    ).nearTies();
    for (const t of ties) assert.ok(Math.abs(t.share) <= 0.15 && t.change.from !== t.change.to);
    const sorted = [...ties].sort((a, b) => Math.abs(a.share) - Math.abs(b.share));
    assert.deepEqual(ties, sorted);
  });

  it('and each proposal, on the examples, makes another plan or none at all', function () {
    this.timeout(60_000);
    let proposals = 0;
    let different = 0;
    for (const file of readdirSync('examples').filter((f) => f.endsWith('.fuse'))) {
      const source = readFileSync(`examples/${file}`, 'utf8');
      const plain = of(source);
      for (const { change: proposed } of plain.nearTies()) {
        proposals++;
        const c = of(source, { plans: [plan({ change: proposed })] });
        const broken = c.result.diagnostics.filter(
          (d) => d.severity === 'error' && d.code !== 'EXPECTATION_FAILED',
        );
        assert.deepEqual(broken, [], file);
        assert.equal(c.result.tunedPlans.length, 1);
        if (nodes(c).join('|') !== nodes(plain).join('|')) different++;
      }
    }
    assert.ok(proposals > 5 && different > proposals / 2, `${proposals}, ${different} differ`);
  });
});

describe('parts of a plan', () => {
  it('are programs of their own, and verify', () => {
    for (let i = 0; i < 20; i++) {
      const c = of(randomProgram(7919 * i + 3));
      for (const k of c.result.after.kernels) {
        const { program, exec } = c.part([{ id: k.id }]);
        assert.deepEqual(verifyProgram(program), []);
        const written = exec.dispatches.flatMap((d) =>
          d.bindings.filter((b) => b.access === 'read_write').map((b) => b.buffer),
        );
        assert.deepEqual(
          [...new Set(written)].sort(),
          program.outputs
            .map((o) => o.value)
            .filter((v) => written.includes(v))
            .sort(),
        );
        for (const b of exec.buffers) assert.notEqual(b.role, 'intermediate');
      }
    }
  });
});
