/**
 * What is run side by side. Each workload is a `.fuse` text (or an ONNX file), which says shapes, runs
 * in our two plans and gives the float64 reference; the peers have the same in their own words
 * (contestants/), by its kind.
 */
import { compile, type Compilation } from '../../compiler';
import type { DeviceProfile } from '../../compiler/result';
import { madeUp } from '../../runner/core/random';

export type Kind =
  | 'bias-relu'
  | 'chain'
  | 'softmax'
  | 'layer-norm'
  | 'matmul'
  | 'convolutions'
  | 'attention'
  | 'mlp'
  | 'transformer'
  | 'model';

export interface Workload {
  /** For people and for `--only`. */
  readonly name: string;
  readonly kind: Kind;
  /** The file's name, by whose ending the format is known; for models its path. */
  readonly file: string;
  /** Empty for models: their bytes are in the file. */
  readonly fuse: string;
}

const fuse = (name: string, kind: Kind, text: string): Workload => ({
  name,
  kind,
  file: `${kind}.fuse`,
  fuse: text,
});

export const WORKLOADS: readonly Workload[] = [
  ...[16_000, 100_000].map((rows) =>
    fuse(
      `relu(x + bias), ${rows === 16_000 ? '1.6e7' : '1e8'}`,
      'bias-relu',
      `input x: f32[${rows}, 1000]
param bias: f32[1000]
y = relu(x + bias)
output y
`,
    ),
  ),
  fuse(
    'eight pointwise ops, 1.6e7',
    'chain',
    `input x: f32[16000, 1000]
param scale: f32[1000]
param bias: f32[1000]
y = abs(sqrt(relu(x * scale + bias) * 0.5 + 1) - x)
output y
`,
  ),
  fuse(
    'softmax [4096, 1024]',
    'softmax',
    `input x: f32[4096, 1024]
y = softmax(x, axis=-1)
output y
`,
  ),
  fuse(
    'layer_norm(relu(x + bias)) [4096, 1024]',
    'layer-norm',
    `input x: f32[4096, 1024]
param bias: f32[1024]
param gamma: f32[1024]
param beta: f32[1024]
y = layer_norm(relu(x + bias), gamma, beta, axis=-1)
output y
`,
  ),
  ...[512, 1024].map((n) =>
    fuse(
      `relu(x · w + bias), ${n}³`,
      'matmul',
      `input x: f32[${n}, ${n}]
param w: f32[${n}, ${n}]
param bias: f32[${n}]
y = relu(x @ w + bias)
output y
`,
    ),
  ),
  fuse(
    'two 3×3 convolutions [1, 32, 56, 56]',
    'convolutions',
    `input x: f32[1, 32, 56, 56]
param w1: f32[32, 32, 3, 3]
param w2: f32[32, 32, 3, 3]
a = conv2d(x, w1, padding=1)
b = conv2d(x, w2, padding=1)
output a, b
`,
  ),
  ...['', '8, '].map((heads) =>
    fuse(
      heads === '' ? 'attention, seq 512, d 64' : 'attention, 8 heads, seq 512, d 64',
      'attention',
      `input q: f32[${heads}512, 64]
input k: f32[${heads}512, 64]
input v: f32[${heads}512, 64]
y = softmax(q @ transpose(k, -1, -2) * 0.125, axis=-1) @ v
output y
`,
    ),
  ),
  fuse(
    'MLP 784-256-256-10, batch 64',
    'mlp',
    `input x: f32[64, 784]
param w1: f32[784, 256]
param b1: f32[256]
param w2: f32[256, 256]
param b2: f32[256]
param w3: f32[256, 10]
param b3: f32[10]
h1 = relu(x @ w1 + b1)
h2 = relu(h1 @ w2 + b2)
y = h2 @ w3 + b3
output y
`,
  ),
  fuse(
    'transformer block, T 128, width 256',
    'transformer',
    `input x: f32[128, 256]
param g1: f32[256]
param c1: f32[256]
param wqkv: f32[256, 768]
param bqkv: f32[768]
param wout: f32[256, 256]
param bout: f32[256]
param g2: f32[256]
param c2: f32[256]
param wup: f32[256, 1024]
param bup: f32[1024]
param wdown: f32[1024, 256]
param bdown: f32[256]
n = layer_norm(x, g1, c1, axis=-1)
qkv = n @ wqkv + bqkv
q, k, v = split(qkv, 256, axis=-1)
qh = transpose(reshape(q, [128, 4, 64]), 0, 1)
kh = transpose(reshape(k, [128, 4, 64]), 0, 1)
vh = transpose(reshape(v, [128, 4, 64]), 0, 1)
p = softmax(qh @ transpose(kh, -1, -2) * 0.125, axis=-1)
mixed = reshape(transpose(p @ vh, 0, 1), [128, 256])
a = mixed @ wout + bout + x
m = layer_norm(a, g2, c2, axis=-1)
y = gelu(m @ wup + bup) @ wdown + bdown + a
output y
`,
  ),
];

export function modelWorkload(name: string, file: string): Workload {
  return { name, kind: 'model', file, fuse: '' };
}

/** The graph of a workload; `bytes` are those of a model's file. */
export function compileWorkload(
  w: Workload,
  bytes: Uint8Array | undefined,
  device?: DeviceProfile,
): Compilation {
  const text = bytes ?? new TextEncoder().encode(w.fuse);
  return compile({ file: w.file, bytes: text }, device ? { device } : {});
}

/** A tensor that is given: what goes in, or a weight that the file has no contents for. */
export interface Given {
  readonly name: string;
  readonly shape: readonly number[];
  readonly role: 'input' | 'param';
}

export interface Signature {
  readonly given: readonly Given[];
  readonly outputs: readonly { readonly name: string; readonly shape: readonly number[] }[];
  /** Bytes of what is given and given out, each once: the least that must be moved. */
  readonly leastBytes: number;
  readonly flops: number;
}

export function signatureOf(c: Compilation): Signature {
  const exec = c.execPlan('unfused');
  const given = exec.buffers.flatMap((b): Given[] =>
    (b.role === 'input' || b.role === 'param') && !b.data
      ? [{ name: b.name, shape: b.shape, role: b.role }]
      : [],
  );
  const constants = exec.buffers.filter((b) => b.data && b.data.kind !== 'fill');
  const outputs = exec.outputs.map(({ name, shape }) => ({ name, shape }));
  const bytes = [...given, ...outputs].reduce((sum, t) => sum + 4 * elementsOf(t.shape), 0);
  return {
    given,
    outputs,
    leastBytes: bytes + constants.reduce((sum, b) => sum + b.bytes, 0),
    flops: c.result.before.flops,
  };
}

export function elementsOf(shape: readonly number[]): number {
  return shape.reduce((a, b) => a * b, 1);
}

const SEED = 20240229;
/** A prime, so that rows of large tensors differ though their contents repeat. */
const BLOCK = 1_000_003;

/** The same numbers for every contestant and for the reference; weights scaled by their fan-in. */
export function contentsOf({ name, shape, role }: Given): Float32Array<ArrayBuffer> {
  const n = elementsOf(shape);
  const fanIn = shape.length === 4 ? elementsOf(shape.slice(1)) : shape.length === 2 ? shape[0] : 1;
  const traits = fanIn === undefined ? {} : { fanIn };
  const block = madeUp(name, SEED, 'f32', Math.min(n, BLOCK), traits, role === 'param');
  const out = new Float32Array(n);
  for (let at = 0; at < n; at += BLOCK) out.set(block.subarray(0, Math.min(BLOCK, n - at)), at);
  return out;
}

export type Contents = ReadonlyMap<string, Float32Array<ArrayBuffer>>;

export function allContents(s: Signature): Contents {
  return new Map(s.given.map((g) => [g.name, contentsOf(g)]));
}
