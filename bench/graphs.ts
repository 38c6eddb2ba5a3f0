/**
 * Generated graphs of any size, as `.fuse` text: what compile times are measured on.
 *
 * Networks that repeat themselves, which load different parts of the compiler:
 *  - *transformer*: blocks of attention and feed-forward layers: contractions, row clusters, views;
 *  - *convnet*: residual blocks of convolutions and batch norms: stencils and long chains of kernels;
 *  - *chain*: pointwise ops only, with a second reader now and then: groups as large as they may be.
 *
 * And uneven ones, in which little or nothing is met twice:
 *  - *literals*: an unbranched chain in which each number is another one;
 *  - *residual*: feed-forward blocks with a shortcut, each scaled by a number of its own;
 *  - *shapes*: layers that all differ in width;
 *  - *fan*: one value that all branches read, and a tree of sums that brings them together;
 *  - *heads*: one value that all branches read, each of them an output of its own.
 */

export type GraphKind =
  'transformer' | 'convnet' | 'chain' | 'literals' | 'residual' | 'shapes' | 'fan' | 'heads';

export const GRAPH_KINDS: readonly GraphKind[] = [
  ...(['transformer', 'convnet', 'chain'] as const),
  ...(['literals', 'residual', 'shapes', 'fan', 'heads'] as const),
];

/** A graph of the kind with about `ops` ops (never fewer than one block). */
export function generate(kind: GraphKind, ops: number): string {
  const blocks = (size: number): number => Math.max(1, Math.round(ops / size));
  switch (kind) {
    case 'transformer':
      return transformer(blocks(TRANSFORMER_OPS));
    case 'convnet':
      return convnet(blocks(CONVNET_OPS));
    case 'chain':
      return chain(ops);
    case 'literals':
      return literals(ops);
    case 'residual':
      return residual(blocks(RESIDUAL_OPS));
    case 'shapes':
      return shapes(blocks(SHAPES_OPS));
    case 'fan':
      return fan(blocks(FAN_OPS));
    case 'heads':
      return heads(blocks(HEADS_OPS));
  }
}

/** Ops of one block, views and binary operators included. */
const TRANSFORMER_OPS = 31;
const CONVNET_OPS = 7;
const RESIDUAL_OPS = 8;
const SHAPES_OPS = 4;
const FAN_OPS = 4;
const HEADS_OPS = 3;

function transformer(blocks: number): string {
  const lines = ['dim S = 128', 'input x0: f32[S, 256]'];
  const shared: readonly (readonly [string, string])[] = [
    ['norm1', '256'],
    ['norm1_b', '256'],
    ['w_qkv', '256, 768'],
    ['b_qkv', '768'],
    ['w_out', '256, 256'],
    ['b_out', '256'],
    ['norm2', '256'],
    ['norm2_b', '256'],
    ['w_up', '256, 1024'],
    ['b_up', '1024'],
    ['w_down', '1024, 256'],
    ['b_down', '256'],
  ];
  for (let i = 0; i < blocks; i++)
    for (const [name, shape] of shared) lines.push(`param ${name}_${i}: f32[${shape}]`);
  for (let i = 0; i < blocks; i++) {
    lines.push(
      `n${i} = layer_norm(x${i}, norm1_${i}, norm1_b_${i}, axis=-1)`,
      `qkv${i} = n${i} @ w_qkv_${i} + b_qkv_${i}`,
      `q${i}, k${i}, v${i} = split(qkv${i}, 256, axis=-1)`,
      `qh${i} = transpose(reshape(q${i}, [S, 4, 64]), 0, 1)`,
      `kh${i} = transpose(reshape(k${i}, [S, 4, 64]), 0, 1)`,
      `vh${i} = transpose(reshape(v${i}, [S, 4, 64]), 0, 1)`,
      `p${i} = softmax(qh${i} @ transpose(kh${i}, -1, -2) / sqrt(64), axis=-1)`,
      `mixed${i} = reshape(transpose(p${i} @ vh${i}, 0, 1), [S, 256])`,
      `a${i} = mixed${i} @ w_out_${i} + b_out_${i} + x${i}`,
      `m${i} = layer_norm(a${i}, norm2_${i}, norm2_b_${i}, axis=-1)`,
      `up${i} = gelu(m${i} @ w_up_${i} + b_up_${i})`,
      `x${i + 1} = up${i} @ w_down_${i} + b_down_${i} + a${i}`,
    );
  }
  lines.push(`output x${blocks}`);
  return `${lines.join('\n')}\n`;
}

function convnet(blocks: number): string {
  const lines = ['dim N = 1', 'input x0: f32[N, 32, 28, 28]'];
  for (let i = 0; i < blocks; i++) {
    for (const layer of ['a', 'b']) {
      lines.push(`param w${layer}${i}: f32[32, 32, 3, 3]`);
      for (const p of ['gamma', 'beta', 'mean', 'var'])
        lines.push(`param ${p}${layer}${i}: f32[32]`);
    }
  }
  for (let i = 0; i < blocks; i++) {
    lines.push(
      `c${i} = conv2d(x${i}, wa${i}, padding=1)`,
      `r${i} = relu(batch_norm(c${i}, meana${i}, vara${i}, gammaa${i}, betaa${i}))`,
      `d${i} = conv2d(r${i}, wb${i}, padding=1)`,
      `x${i + 1} = relu(batch_norm(d${i}, meanb${i}, varb${i}, gammab${i}, betab${i}) + x${i})`,
    );
  }
  lines.push(`output x${blocks}`);
  return `${lines.join('\n')}\n`;
}

function chain(ops: number): string {
  const lines = ['input t0: f32[256, 1024]', 'param scale: f32[1024]'];
  const steps: readonly ((x: string, back: string) => string)[] = [
    (x) => `relu(${x})`,
    (x) => `${x} * scale`,
    (x) => `tanh(${x})`,
    (x) => `${x} + 0.5`,
    (x) => `sigmoid(${x})`,
    // A shortcut: the earlier value gets a second reader.
    (x, back) => `${x} + ${back}`,
  ];
  for (let i = 0; i < ops; i++) {
    const step = steps[i % steps.length];
    if (step) lines.push(`t${i + 1} = ${step(`t${i}`, `t${Math.max(0, i - 3)}`)}`);
  }
  lines.push(`output t${ops}`);
  return `${lines.join('\n')}\n`;
}

/** The i-th number of a file in which no two are alike; all are near 1, so that values stay finite. */
function literal(i: number): string {
  return (0.5 + ((i * 37) % 100_003) / 100_003).toFixed(6);
}

function literals(ops: number): string {
  const lines = ['input t0: f32[256, 1024]'];
  const steps: readonly ((x: string, c: string) => string)[] = [
    (x, c) => `${x} * ${c}`,
    (x) => `tanh(${x})`,
    (x, c) => `${x} + ${c}`,
    (x, c) => `maximum(${x}, ${c})`,
    (x) => `sigmoid(${x})`,
  ];
  for (let i = 0; i < ops; i++) {
    const step = steps[i % steps.length];
    if (step) lines.push(`t${i + 1} = ${step(`t${i}`, literal(i))}`);
  }
  lines.push(`output t${ops}`);
  return `${lines.join('\n')}\n`;
}

function residual(blocks: number): string {
  const lines = ['dim N = 32', 'input x0: f32[N, 128]'];
  for (let i = 0; i < blocks; i++)
    lines.push(`param up${i}: f32[128, 256]`, `param down${i}: f32[256, 128]`);
  for (let i = 0; i < blocks; i++)
    lines.push(
      `n${i} = rms_norm(x${i}, [128])`,
      `h${i} = gelu(n${i} @ up${i} * ${literal(2 * i)})`,
      `x${i + 1} = x${i} + ${literal(2 * i + 1)} * (h${i} @ down${i})`,
    );
  lines.push(`output x${blocks}`);
  return `${lines.join('\n')}\n`;
}

/** Widths that don't come again for a long while. */
function width(i: number): number {
  return 16 + ((i * 61) % 4_093);
}

function shapes(blocks: number): string {
  const lines = ['dim N = 32', `input x0: f32[N, ${width(0)}]`];
  for (let i = 0; i < blocks; i++) {
    const [from, to] = [width(i), width(i + 1)];
    lines.push(`param w${i}: f32[${from}, ${to}]`, `param b${i}: f32[${to}]`);
  }
  for (let i = 0; i < blocks; i++)
    lines.push(`x${i + 1} = softmax(relu(x${i} @ w${i} + b${i}), axis=-1)`);
  lines.push(`output x${blocks}`);
  return `${lines.join('\n')}\n`;
}

function fan(branches: number): string {
  const lines = ['input x: f32[64, 128]', 'h = tanh(x)'];
  let layer: string[] = [];
  for (let i = 0; i < branches; i++) {
    lines.push(`b${i} = ${i % 2 === 0 ? 'relu' : 'sin'}(h * ${literal(i)})`);
    layer.push(`b${i}`);
  }
  for (let depth = 0; layer.length > 1; depth++) {
    const next: string[] = [];
    for (let i = 0; i + 1 < layer.length; i += 2) {
      lines.push(`s${depth}_${i} = ${layer[i] ?? ''} + ${layer[i + 1] ?? ''}`);
      next.push(`s${depth}_${i}`);
    }
    if (layer.length % 2 === 1) next.push(layer[layer.length - 1] ?? '');
    layer = next;
  }
  lines.push(`output ${layer[0] ?? 'h'}`);
  return `${lines.join('\n')}\n`;
}

function heads(branches: number): string {
  const lines = ['input x: f32[64, 128]', 'h = softmax(x, axis=-1)'];
  for (let i = 0; i < branches; i++) lines.push(`y${i} = exp(h + ${literal(i)}) * h`);
  for (let i = 0; i < branches; i++) lines.push(`output y${i}`);
  return `${lines.join('\n')}\n`;
}
