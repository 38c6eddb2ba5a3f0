/** Plans of small programs: which ops share a kernel, and the reasons where they don't. */
import assert from 'node:assert/strict';
import { DEFAULT_DEVICE } from '../../../compiler/fusion/devices';
import { compileText, cutsText, planText, random } from './fixture';

/** The plan of a program, its cuts, and how many kernels it takes without fusion. */
function plan(text: string): { kernels: string[]; cuts: string[]; before: number } {
  const r = compileText(text);
  const errors = r.diagnostics.filter((d) => d.severity === 'error').map((d) => d.message);
  assert.deepEqual(errors, []);
  return { kernels: planText(r), cuts: cutsText(r), before: r.before.kernels.length };
}

const matrix = (name: string, n = 512): string => `param ${name}: f32[${n}, ${n}]`;

describe('Fusion search', () => {
  it('a chain of elementwise ops is one kernel', () => {
    assert.deepEqual(plan('input x: f32[256, 1024]\ny = tanh(relu(x) * 0.5 + 1)\noutput y'), {
      kernels: ['pointwise: y#relu y#mul y#add y#tanh'],
      cuts: [],
      before: 4,
    });
  });

  it('a bias and an activation are the epilogue of a product', () => {
    const p = plan(
      `input x: f32[128, 512]\n${matrix('w')}\nparam b: f32[512]\ny = relu(x @ w + b)\noutput y`,
    );
    assert.deepEqual(p.kernels, ['epilogue: y#matmul y#add y#relu']);
  });

  it('what stands before and after a norm joins it', () => {
    const p = plan(`
input x: f32[64, 512]
param g: f32[512]
param b: f32[512]
s = relu(x)
n = layer_norm(s, g, b, axis=-1)
y = gelu(n)
output y`);
    assert.deepEqual(p.kernels, ['composite: s#relu n#layer_norm y#gelu']);
  });

  it('attention is one kernel, whatever its ops are called', () => {
    const p = plan(`
input q: f32[8, 256, 64]
input k: f32[8, 256, 64]
input v: f32[8, 256, 64]
s = q @ transpose(k, -1, -2)
p = softmax(s / 8, axis=-1)
o = p @ v
output o`);
    assert.deepEqual(p.kernels, ['attention: s#matmul p#div p#softmax o#matmul']);
  });

  it('reductions that read the same rows are one kernel', () => {
    const p = plan(`
input x: f32[1024, 1024]
a = sum(x, axis=-1)
b = amax(x, axis=-1)
output a
output b`);
    assert.deepEqual(p.kernels, ['horizontal: a#sum b#amax']);
  });

  it('views cost no kernel and cut nothing', () => {
    const p = plan(`
input x: f32[64, 96]
a = relu(x)
b = reshape(transpose(a, 0, 1), [32, 192])
y = exp(b) + 1
output y`);
    assert.equal(p.kernels.length, 1);
    assert.deepEqual(p.cuts, []);
  });

  it('a product can not read another one within a kernel: NEEDS_GLOBAL_SYNC', () => {
    const r = compileText(`
input x: f32[128, 512]
${matrix('w')}
${matrix('v')}
h = relu(x @ w)
y = h @ v
output y`);
    assert.deepEqual(planText(r), ['epilogue: h#matmul h#relu', 'single: y#matmul']);
    assert.deepEqual(cutsText(r), ['h#relu -> y#matmul: NEEDS_GLOBAL_SYNC']);
    const verdict = r.decisions.find((d) => !d.fused)?.verdicts[0];
    assert.equal(verdict?.confidence, 'proved');
    // Each of the 128 rows would be computed again for each of the 512 columns.
    assert.equal(verdict?.quantity, 512);
    assert.deepEqual(verdict?.nodes, ['h#matmul']);
  });

  it('a convolution can not read another one either, and takes its shortcut as epilogue', () => {
    const p = plan(`
input x: f32[1, 16, 28, 28]
param w: f32[16, 16, 3, 3]
param v: f32[16, 16, 3, 3]
a = relu(conv2d(x, w, padding=1))
y = conv2d(a, v, padding=1) + x
output y`);
    assert.deepEqual(p.kernels, ['epilogue: a#conv2d a#relu', 'epilogue: y#conv2d y#add']);
    assert.deepEqual(p.cuts, ['a#relu -> y#conv2d: NEEDS_GLOBAL_SYNC']);
  });

  it('a shortcut around other kernels is a CYCLE, and the verdict names what is between', () => {
    const r = compileText(`
input x: f32[512, 512]
${matrix('w0')}
${matrix('w1')}
${matrix('w2')}
t = relu(x @ w0)
u = t @ w1
v = u @ w2
y = v + t
output y`);
    assert.deepEqual(cutsText(r), [
      't#relu -> u#matmul: NEEDS_GLOBAL_SYNC',
      'u#matmul -> v#matmul: NEEDS_GLOBAL_SYNC',
      't#relu -> y#add: CYCLE',
    ]);
    const cycle = r.decisions.find((d) => d.to === 'y#add' && !d.fused)?.verdicts[0];
    assert.deepEqual(cycle?.nodes, ['u#matmul']);
  });

  it('the adapter’s limit on buffers cuts a sum of many, and more buffers mend it', () => {
    const inputs = Array.from({ length: 12 }, (_, i) => `input x${i}: f32[1024, 64]`);
    const sums = Array.from({ length: 10 }, (_, i) => `s${i + 1} = s${i} + x${i + 2}`);
    const text = [...inputs, 's0 = x0 + x1', ...sums, 'output s10'].join('\n');
    const r = compileText(text);
    assert.equal(r.after.kernels.length, 2);
    for (const k of r.after.kernels) assert.ok(k.inputs.length + k.outputs.length <= 8);
    const [cut] = r.decisions.filter((d) => !d.fused);
    assert.equal(cut?.verdicts[0]?.code, 'STORAGE_BUFFERS');
    assert.equal(cut?.verdicts[0]?.quantity, 13);
    assert.equal(cut?.verdicts[0]?.limit, 8);
    const limits = { ...DEFAULT_DEVICE.limits, maxStorageBuffersPerShaderStage: 16 };
    assert.equal(compileText(text, { ...DEFAULT_DEVICE, limits }).after.kernels.length, 1);
  });

  it('a chain over the size budget is cut with CODE_SIZE', () => {
    const lines = ['input t0: f32[4096]'];
    for (let i = 0; i < 600; i++) lines.push(`t${i + 1} = ${i % 2 ? 'tanh' : 'relu'}(t${i})`);
    const r = compileText([...lines, 'output t600'].join('\n'));
    assert.equal(r.after.kernels.length, 3);
    const cuts = r.decisions.filter((d) => !d.fused);
    assert.equal(cuts.length, 2);
    for (const d of cuts) assert.equal(d.verdicts[0]?.code, 'CODE_SIZE');
  });

  it('what the file asks for comes first', () => {
    const head = 'input x: f32[64, 64]\na = relu(x)\ny = tanh(a)\noutput y\n';
    const forbidden = plan(`${head}nofuse a -> y`);
    assert.deepEqual(forbidden.kernels, ['single: a#relu', 'single: y#tanh']);
    assert.deepEqual(forbidden.cuts, ['a#relu -> y#tanh: FORBIDDEN']);
    // Kept in memory, and still one kernel, which stores both.
    const kept = compileText(`${head}materialize a`);
    assert.deepEqual(planText(kept), ['multi-output: a#relu y#tanh']);
    assert.equal(kept.after.kernels[0]?.outputs.length, 2);
  });

  it('a fuse line that can’t be obeyed is an error with the verdicts', () => {
    const r = compileText(`
input x: f32[128, 512]
${matrix('w')}
${matrix('v')}
h = x @ w
y = h @ v
output y
fuse h, y`);
    const [error] = r.diagnostics.filter((d) => d.severity === 'error');
    assert.equal(error?.code, 'REQUIRED_BUT');
    assert.match(error?.message ?? '', /'fuse h, y' can't be one kernel: NEEDS_GLOBAL_SYNC: /);
    assert.equal(r.after.kernels.length, 2);
  });

  it('every edge between ops has a decision; those of equal blocks differ in their names alone', () => {
    const lines = ['input x0: f32[128, 512]'];
    for (let i = 0; i < 3; i++) lines.push(`${matrix(`w${i}`)}`, `${matrix(`v${i}`)}`);
    for (let i = 0; i < 3; i++)
      lines.push(`h${i} = relu(x${i} @ w${i})`, `x${i + 1} = gelu(h${i} @ v${i})`);
    const r = compileText([...lines, 'output x3'].join('\n'));
    const edges = r.graph.nodes.flatMap((n) =>
      n.operands.filter((o) => r.graph.nodes.some((m) => m.results.includes(o ?? ''))),
    );
    assert.equal(r.decisions.length, edges.length);
    for (const d of r.decisions) {
      if (d.fused) continue;
      for (const v of d.verdicts) assert.ok(v.nodes.length > 0, d.summary);
    }
    const blocks = [0, 1, 2].map((i) =>
      r.decisions
        .filter((d) => d.to.startsWith(`h${i}`) || d.from.startsWith(`h${i}`))
        .map((d) => JSON.stringify(d.verdicts).replaceAll(/\b([hx])\d/g, '$1'))
        .slice(-3),
    );
    assert.deepEqual(blocks[1], blocks[2]);
    assert.equal(new Set(r.after.kernels.map((k) => k.hash)).size, 2);
  });

  it('a plan doesn’t depend on the order of independent statements, nor on the run', () => {
    for (let seed = 1; seed <= 12; seed++) {
      const { declarations, statements, outputs } = randomProgram(seed);
      const pick = random(seed + 1000);
      const text = (body: readonly string[]): string =>
        [...declarations, ...body, ...outputs].join('\n');
      const first = compileText(text(statements));
      const again = compileText(text(statements));
      assert.deepEqual(again, first, `seed ${seed}`);
      for (let n = 0; n < 3; n++) {
        const shuffled = compileText(text(shuffle(statements, pick)));
        assert.deepEqual(membership(shuffled), membership(first), `seed ${seed}`);
        assert.deepEqual(cutsText(shuffled).sort(), cutsText(first).sort(), `seed ${seed}`);
      }
    }
  });
});

/** Which ops share kernels, without the order of either. */
function membership(r: ReturnType<typeof compileText>): string[] {
  return r.after.kernels.map((k) => [...k.nodes].sort().join(' ')).sort();
}

function randomProgram(seed: number): {
  declarations: string[];
  statements: string[];
  outputs: string[];
} {
  const pick = random(seed);
  const declarations = ['input x: f32[64, 32]', 'input z: f32[64, 32]', 'param w: f32[32, 32]'];
  const statements: string[] = [];
  const values = ['x', 'z'];
  const read = new Set<string>();
  const one = (): string => {
    const v = values[pick(values.length)] ?? 'x';
    read.add(v);
    return v;
  };
  const count = 4 + pick(10);
  for (let i = 0; i < count; i++) {
    const kinds: readonly (() => string)[] = [
      () => `relu(${one()})`,
      () => `tanh(${one()})`,
      () => `${one()} + ${one()}`,
      () => `${one()} * ${one()}`,
      () => `softmax(${one()}, axis=-1)`,
      () => `${one()} - mean(${one()}, axis=-1, keepdim=true)`,
      () => `${one()} @ w`,
      () => `transpose(reshape(${one()}, [32, 64]), 0, 1)`,
    ];
    const name = `t${pick(9000) + 1000}_${i}`;
    statements.push(`${name} = ${kinds[pick(kinds.length)]?.() ?? ''}`);
    values.push(name);
  }
  const outputs = values.slice(2).filter((v) => !read.has(v));
  return { declarations, statements, outputs: outputs.map((v) => `output ${v}`) };
}

/** Another order in which each statement still comes after what it reads. */
function shuffle(statements: readonly string[], pick: (below: number) => number): string[] {
  const name = (s: string): string => s.slice(0, s.indexOf(' '));
  const left = [...statements];
  const out: string[] = [];
  while (left.length > 0) {
    const ready = left.filter((s) => !left.some((o) => o !== s && s.includes(name(o))));
    const next = ready[pick(ready.length)] ?? left[0];
    if (next === undefined) break;
    out.push(next);
    left.splice(left.indexOf(next), 1);
  }
  return out;
}
