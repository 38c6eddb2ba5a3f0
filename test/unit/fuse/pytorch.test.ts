/** What people paste from PyTorch: forms that the language takes as they are, by numbers. */
import assert from 'node:assert/strict';
import { compile } from '../../../compiler';
import { verifyProgram } from '../../../compiler/ir/verify';
import { interpret } from '../../../compiler/reference';

const X = [1, -2, 3, 0.5, 4, -1, 2, -3];

/** The outputs of a program; inputs by name, `x: f32[2, 4]` unless the text declares it. */
function run(
  text: string,
  feeds: Readonly<Record<string, readonly number[]>> = {},
): { values: number[]; shape: number[] }[] {
  const head = /^input x\b/m.test(text) ? '' : 'input x: f32[2, 4]\n';
  const bytes = new TextEncoder().encode(head + text);
  const { program, result } = compile({ file: 'test.fuse', bytes });
  assert.deepEqual(
    result.diagnostics.filter((d) => d.severity !== 'info').map((d) => d.message),
    [],
  );
  assert.deepEqual(verifyProgram(program), []);
  const inputs = new Map(program.inputs.map((id) => [id, feeds[id] ?? X]));
  const kept = interpret(program, inputs);
  return program.outputs.map((o) => {
    const v = program.values.get(o.value);
    const n = o.shape.reduce((a, d) => a * d.c, 1);
    const fixed =
      v?.data?.kind === 'numbers'
        ? v.data.values
        : v?.data?.kind === 'fill'
          ? new Array<number>(n).fill(v.data.value)
          : [];
    return { values: Array.from(kept.get(o.value) ?? fixed), shape: o.shape.map((d) => d.c) };
  });
}

function close(got: readonly number[] | undefined, expected: readonly number[]): void {
  assert.equal(got?.length, expected.length);
  expected.forEach((e, i) => {
    const g = got[i] ?? NaN;
    assert.ok(
      Object.is(g, e) || Math.abs(g - e) < 1e-6 * Math.max(1, Math.abs(e)),
      `${g} is not ${e}`,
    );
  });
}

function faults(text: string): string[] {
  const bytes = new TextEncoder().encode(text);
  return compile({ file: 'test.fuse', bytes })
    .result.diagnostics.filter((d) => d.severity === 'error')
    .map((d) => `${d.code} ${d.message}`);
}

const sum = (v: readonly number[]): number => v.reduce((a, b) => a + b, 0);

describe('what is pasted from PyTorch', () => {
  it('asks for shapes: of inputs, of what is computed, one after the other', () => {
    const text = `
B, N = x.size()
a = x.view(x.size(0), -1, 2)
b = a.reshape(a.shape[0] * a.size(1), a.shape[-1])
c = b.view(b.numel())
d = c.reshape(N, B) * c.ndim + x.shape[1] / x.dim()
output a, b, d`;
    const [a, b, d] = run(text);
    assert.deepEqual(
      [a?.shape, b?.shape, d?.shape],
      [
        [2, 2, 2],
        [4, 2],
        [4, 2],
      ],
    );
    close(
      d?.values,
      X.map((v) => v + 2),
    );
    const [y] = run('y = layer_norm(x, x.shape[-1:])\noutput y');
    assert.deepEqual(y?.shape, [2, 4]);
  });

  it('takes a name again, and changes it by a sign and =', () => {
    const [x, y] = run(
      'input x: f32[3]\nx = relu(x)\ny = x\nx += y * 2\nx -= 1\nx /= 4\nx **= 2\nn = 3\nn *= 2\nx //= n\noutput x, y',
      { x: [-1, 8, 9] },
    );
    const want = [0, 8, 9].map((v) => Math.floor(((3 * v - 1) / 4) ** 2 / 6));
    close(x?.values, want);
    close(y?.values, [0, 8, 9]);
  });

  it('… also of symbolic sizes', () => {
    const text =
      'dim B = 2\ninput x: f32[B, 4]\na = relu(x)\ny = a.view(a.size(0) * 2, 2)\noutput y';
    const bytes = new TextEncoder().encode(text);
    const { program, result } = compile({ file: 'test.fuse', bytes });
    assert.deepEqual(
      result.diagnostics.filter((d) => d.severity === 'error'),
      [],
    );
    assert.equal(program.outputs[0]?.shape[0]?.key, '2*$B');
  });

  it('says where there is no such dim, and where a shape can’t be known', () => {
    assert.match(faults('input x: f32[2, 4]\ny = x * x.size(2)\noutput y')[0] ?? '', /^AXIS_RANGE/);
    const unknown = faults('input x: f32[2, 4]\na = nothing(x)\ny = a.view(a.size(0))\noutput y');
    assert.deepEqual(
      unknown.map((f) => f.split(' ')[0]),
      ['UNKNOWN_OP', 'UNKNOWN_SHAPE'],
    );
  });

  it('writes infinities as text, and names modules and devices', () => {
    const m = [1, 0, 0, 1, 0, 0, 1, 1];
    const [y, z] = run(
      `input m: bool[2, 4]
y = x.masked_fill(m, float('-inf')).to('cuda')
z = torch.full([2, 4], float("inf"), device='cuda') - math.inf
output y, z`,
      { m },
    );
    close(
      y?.values,
      X.map((v, i) => (m[i] === 1 ? -Infinity : v)),
    );
    close(z?.values, new Array<number>(8).fill(NaN));
  });

  it('takes one of several results', () => {
    const [a, b, c, v, p] = run(`
a = unbind(x)[1]
b = x.split(2, dim=1)[1]
c = x.chunk(2, dim=-1)[0]
t = x.max(dim=1).values
v = x.topk(2).values + t.unsqueeze(1)
p = x.topk(1).indices
output a, b, c, v, p`);
    close(a?.values, [4, -1, 2, -3]);
    close(b?.values, [3, 0.5, 2, -3]);
    close(c?.values, [1, -2, 4, -1]);
    close(v?.values, [6, 4, 8, 6]);
    close(p?.values, [2, 0]);
    assert.match(
      faults('input x: f32[2, 4]\ny = x.max(dim=1).indices\noutput y')[0] ?? '',
      /argmax/,
    );
  });

  it('combines bools and bits by signs', () => {
    const [y, z, w] = run(`
y = ((x > 0) & (x < 3) | (x < -2)).float()
z = (~(x > 0)).float()
w = ((x > 0) ^ (x > 2)).float()
output y, z, w`);
    close(
      y?.values,
      X.map((v) => ((v > 0 && v < 3) || v < -2 ? 1 : 0)),
    );
    close(
      z?.values,
      X.map((v) => (v > 0 ? 0 : 1)),
    );
    close(
      w?.values,
      X.map((v) => (v > 0 !== v > 2 ? 1 : 0)),
    );
  });

  it('has scaled sums and single bounds', () => {
    const [a, b, c, d, e] = run(`
a = torch.rsub(x, 1)
b = rsub(x, x * x, alpha=2)
c = torch.addcmul(x, x, x, value=0.5)
d = torch.addcdiv(x, x, x + 10, value=2)
e = x.clamp_min(0).clamp_max(2)
output a, b, c, d, e`);
    close(
      a?.values,
      X.map((v) => 1 - v),
    );
    close(
      b?.values,
      X.map((v) => v * v - 2 * v),
    );
    close(
      c?.values,
      X.map((v) => v + 0.5 * v * v),
    );
    close(
      d?.values,
      X.map((v) => v + (2 * v) / (v + 10)),
    );
    close(
      e?.values,
      X.map((v) => Math.min(2, Math.max(0, v))),
    );
  });

  it('reads blocks of windows, and slides along a dim', () => {
    const image = Array.from({ length: 9 }, (_, i) => i + 1);
    const [a, b] = run(
      `input x: f32[1, 1, 3, 3]
a = F.unfold(x, kernel_size=2, padding=(0, 1))
b = x.unfold(3, 2, 1)
output a, b`,
      { x: image },
    );
    assert.deepEqual(
      [a?.shape, b?.shape],
      [
        [1, 4, 8],
        [1, 1, 3, 2, 2],
      ],
    );
    const at = (r: number, c: number): number => (c < 0 || c > 2 ? 0 : (image[3 * r + c] ?? 0));
    const expected: number[] = [];
    for (const [kr, kc] of [
      [0, 0],
      [0, 1],
      [1, 0],
      [1, 1],
    ] as const)
      for (let r = 0; r < 2; r++) for (let c = -1; c < 3; c++) expected.push(at(r + kr, c + kc));
    close(a?.values, expected);
    close(b?.values, [1, 2, 2, 3, 4, 5, 5, 6, 7, 8, 8, 9]);
  });

  it('has moments with their means, ranges, fills of a type', () => {
    const [v, m, l, n, o] = run(`
v, m = torch.var_mean(x, dim=-1, correction=0)
l = torch.linspace(0, 1, 5)
n = x.new_zeros(2, 3)
o = torch.ones(3, 2)
output v, m, l, n, o`);
    const rows = [X.slice(0, 4), X.slice(4)];
    const means = rows.map((r) => sum(r) / 4);
    close(m?.values, means);
    close(
      v?.values,
      rows.map((r, i) => sum(r.map((e) => (e - (means[i] ?? 0)) ** 2)) / 4),
    );
    close(l?.values, [0, 0.25, 0.5, 0.75, 1]);
    assert.deepEqual(
      [n?.shape, n?.values],
      [
        [2, 3],
        [0, 0, 0, 0, 0, 0],
      ],
    );
    assert.deepEqual(
      [o?.shape, o?.values],
      [
        [3, 2],
        [1, 1, 1, 1, 1, 1],
      ],
    );
  });

  it('has the losses with their arguments', () => {
    const t = [0.5, 0, 1, 0.25, 1, 0.75, 0, 0.5];
    const [h, s, b, k, c, e] = run(
      `input t: f32[2, 4]
input i: i64[2]
h = F.huber_loss(x, t, delta=0.5)
s = F.smooth_l1_loss(x, t, reduction='sum', beta=2.0)
b = F.binary_cross_entropy_with_logits(x, t)
k = F.kl_div(x.log_softmax(-1), t, reduction='batchmean')
c = F.cosine_similarity(x, t, dim=1)
e = F.cross_entropy(x, i, label_smoothing=0.1)
output h, s, b, k, c, e`,
      { t, i: [2, 0] },
    );
    const d = X.map((v, i) => v - (t[i] ?? 0));
    close(h?.values, [
      sum(d.map((v) => (Math.abs(v) < 0.5 ? v * v * 0.5 : 0.5 * (Math.abs(v) - 0.25)))) / 8,
    ]);
    close(s?.values, [sum(d.map((v) => (Math.abs(v) < 2 ? (v * v) / 4 : Math.abs(v) - 1)))]);
    const sigmoid = (v: number): number => 1 / (1 + Math.exp(-v));
    close(b?.values, [
      -sum(
        X.map((v, i) => {
          const y = t[i] ?? 0;
          return y * Math.log(sigmoid(v)) + (1 - y) * Math.log(1 - sigmoid(v));
        }),
      ) / 8,
    ]);
    const rows = [X.slice(0, 4), X.slice(4)];
    const logs = rows.flatMap((r) => {
      const all = Math.log(sum(r.map(Math.exp)));
      return r.map((v) => v - all);
    });
    close(k?.values, [sum(t.map((y, i) => (y > 0 ? y * (Math.log(y) - (logs[i] ?? 0)) : 0))) / 2]);
    const dot = (a: readonly number[], o: readonly number[]): number =>
      sum(a.map((v, i) => v * (o[i] ?? 0)));
    close(
      c?.values,
      rows.map((r, i) => {
        const u = t.slice(4 * i, 4 * i + 4);
        return dot(r, u) / Math.sqrt(dot(r, r) * dot(u, u));
      }),
    );
    close(e?.values, [
      sum(
        [2, 0].map((label, n) => {
          const own = logs.slice(4 * n, 4 * n + 4);
          return -0.9 * (own[label] ?? 0) - (0.1 / 4) * sum(own);
        }),
      ) / 2,
    ]);
  });

  it('says of ops that change their operand what to write', () => {
    const [fault] = faults('input x: f32[2, 4]\ny = x.add_(1)\noutput y');
    assert.match(fault ?? '', /^IN_PLACE .* write add/);
  });
});
