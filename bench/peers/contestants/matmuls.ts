/**
 * Hand-written matmuls with bias and relu, for n × n matrices: y = relu(x · w + bias).
 *
 *  - *registers*: a thread computes `rows` × 4·`vectors` elements and reads x and w straight from
 *    memory. No workgroup memory, no barriers: best on CPUs that pretend to be GPUs.
 *  - *tiles*: 64 × 64 elements a workgroup, whose parts of x and w go through workgroup memory: the
 *    textbook's, for real GPUs.
 */
export interface MatmulVariant {
  readonly name: string;
  readonly wgsl: string;
  readonly grid: readonly [number, number, number];
}

const BINDINGS = `@group(0) @binding(0) var<storage, read> x: array<vec4f>;
@group(0) @binding(1) var<storage, read> w: array<vec4f>;
@group(0) @binding(2) var<storage, read> bias: array<vec4f>;
@group(0) @binding(3) var<storage, read_write> y: array<vec4f>;`;

const REGISTERS: readonly (readonly [number, number, number, number])[] = [
  // rows, vectors of columns, threads across, threads down
  [8, 1, 16, 4],
  [8, 1, 64, 1],
  [8, 2, 16, 4],
  [4, 1, 16, 4],
  [4, 2, 8, 8],
];

export function matmulVariants(
  n: number,
  limits: { readonly maxComputeInvocationsPerWorkgroup: number },
): MatmulVariant[] {
  const registers = REGISTERS.filter(
    ([r, v, wx, wy]) => n % (r * wy) === 0 && n % (4 * v * wx) === 0,
  );
  const tiles = n % 64 === 0 && limits.maxComputeInvocationsPerWorkgroup >= 256 ? [tiled(n)] : [];
  return [...registers.map((p) => registerBlocked(n, ...p)), ...tiles];
}

const times = <T>(n: number, f: (i: number) => T): T[] => Array.from({ length: n }, (_, i) => f(i));

function registerBlocked(
  n: number,
  rows: number,
  vectors: number,
  across: number,
  down: number,
): MatmulVariant {
  const n4 = n / 4;
  const each = (f: (r: number, v: number) => string): string =>
    times(rows, (r) => times(vectors, (v) => f(r, v)).join('\n')).join('\n');
  return {
    name: `${rows} × ${4 * vectors} a thread, ${across} × ${down} threads`,
    grid: [n / (4 * vectors * across), n / (rows * down), 1],
    wgsl: `${BINDINGS}
@compute @workgroup_size(${across}, ${down})
fn main(@builtin(global_invocation_id) id: vec3u) {
  let column = id.x * ${vectors}u;
  let row = id.y * ${rows}u;
${each((r, v) => `  var a${r}_${v} = vec4f();`)}
  for (var k = 0u; k < ${n4}u; k++) {
${times(rows, (r) => `    let x${r} = x[(row + ${r}u) * ${n4}u + k];`).join('\n')}
${times(4, (j) =>
  [
    ...times(vectors, (v) => `    let w${j}_${v} = w[(4u * k + ${j}u) * ${n4}u + column + ${v}u];`),
    each((r, v) => `    a${r}_${v} = fma(vec4f(x${r}[${j}]), w${j}_${v}, a${r}_${v});`),
  ].join('\n'),
).join('\n')}
  }
${each(
  (r, v) =>
    `  y[(row + ${r}u) * ${n4}u + column + ${v}u] = max(a${r}_${v} + bias[column + ${v}u], vec4f());`,
)}
}`,
  };
}

function tiled(n: number): MatmulVariant {
  const n4 = n / 4;
  return {
    name: '64 × 64 tiles in workgroup memory',
    grid: [n / 64, n / 64, 1],
    wgsl: `${BINDINGS}
var<workgroup> xs: array<vec4f, 256>;
var<workgroup> ws: array<vec4f, 256>;
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) t: u32) {
  let across = t % 16u;
  let down = t / 16u;
  let column = group.x * 16u + across;
  let row = group.y * 64u + down * 4u;
${times(4, (r) => `  var a${r} = vec4f();`).join('\n')}
  for (var k = 0u; k < ${n4}u; k += 4u) {
    xs[t] = x[(group.y * 64u + t / 4u) * ${n4}u + k + t % 4u];
    ws[t] = w[(4u * k + down) * ${n4}u + column];
    workgroupBarrier();
    for (var i = 0u; i < 4u; i++) {
${times(4, (r) => `      let x${r} = xs[(down * 4u + ${r}u) * 4u + i];`).join('\n')}
${times(4, (j) =>
  [
    `      let w${j} = ws[(4u * i + ${j}u) * 16u + across];`,
    ...times(4, (r) => `      a${r} = fma(vec4f(x${r}[${j}]), w${j}, a${r});`),
  ].join('\n'),
).join('\n')}
    }
    workgroupBarrier();
  }
${times(4, (r) => `  y[(row + ${r}u) * ${n4}u + column] = max(a${r} + bias[column], vec4f());`).join('\n')}
}`,
  };
}
