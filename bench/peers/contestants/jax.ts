/** jax-js with its WebGPU device; each workload is one function under `jit`. */
import { given, Unsupported, type Contestant, type Prepared, type Task } from './contestant';
import { loader, type Jax, type JaxArray } from './peers';

/** Arguments in the order of the workload's declarations. Each use of an array consumes it. */
type Program = (...args: JaxArray[]) => JaxArray[];

function programOf({ nn, numpy: np, lax }: Jax, { workload: { kind } }: Task): Program {
  const norm = (x: JaxArray, gamma: JaxArray, beta: JaxArray): JaxArray =>
    nn.standardize(x, -1, { epsilon: 1e-5 }).mul(gamma).add(beta);
  const attention = (q: JaxArray, k: JaxArray, v: JaxArray, order: readonly number[]): JaxArray =>
    np.matmul(nn.softmax(np.matmul(q, k.transpose(order)).mul(0.125), -1), v);
  const dense = (x: JaxArray, w: JaxArray, b: JaxArray): JaxArray => np.matmul(x, w).add(b);
  switch (kind) {
    case 'bias-relu':
      return (...a) => use(a, 2, ([x, bias]) => [nn.relu(x.add(bias))]);
    case 'chain':
      return (...a) =>
        use(a, 3, ([x, scale, bias]) => {
          const r = nn.relu(x.ref.mul(scale).add(bias));
          return [np.abs(np.sqrt(r.mul(0.5).add(1)).sub(x))];
        });
    case 'softmax':
      return (...a) => use(a, 1, ([x]) => [nn.softmax(x, -1)]);
    case 'layer-norm':
      return (...a) =>
        use(a, 4, ([x, bias, gamma, beta]) => [norm(nn.relu(x.add(bias)), gamma, beta)]);
    case 'matmul':
      return (...a) => use(a, 3, ([x, w, bias]) => [nn.relu(dense(x, w, bias))]);
    case 'convolutions':
      return (...a) =>
        use(a, 3, ([x, w1, w2]) => [
          lax.conv(x.ref, w1, [1, 1], 'SAME'),
          lax.conv(x, w2, [1, 1], 'SAME'),
        ]);
    case 'attention':
      return (...a) =>
        use(a, 3, ([q, k, v]) => [attention(q, k, v, rankOf(q) === 3 ? [0, 2, 1] : [1, 0])]);
    case 'mlp':
      return (...a) =>
        use(a, 7, ([x, w1, b1, w2, b2, w3, b3]) => {
          const h1 = nn.relu(dense(x, w1, b1));
          return [dense(nn.relu(dense(h1, w2, b2)), w3, b3)];
        });
    case 'transformer':
      return (...a) =>
        use(a, 13, ([x, g1, c1, wqkv, bqkv, wout, bout, g2, c2, wup, bup, wdown, bdown]) => {
          const n = norm(x.ref, g1, c1);
          const parts = np.split(dense(n, wqkv, bqkv), 3, -1);
          const heads = parts.map((p) => p.reshape([128, 4, 64]).transpose([1, 0, 2]));
          return use(heads, 3, ([q, k, v]) => {
            const mixed = attention(q, k, v, [0, 2, 1]).transpose([1, 0, 2]).reshape([128, 256]);
            const after = dense(mixed, wout, bout).add(x);
            const up = dense(norm(after.ref, g2, c2), wup, bup);
            return [dense(nn.gelu(up, { approximate: false }), wdown, bdown).add(after)];
          });
        });
    case 'model':
      throw new Unsupported('reads no ONNX files by itself');
  }
}

/** The first `n` arrays; a missing one is a bug of this file. */
function use<N extends number>(
  args: readonly JaxArray[],
  n: N,
  f: (args: Tuple<N>) => JaxArray[],
): JaxArray[] {
  if (args.length !== n) throw new Error(`${args.length} arrays instead of ${n}`);
  return f(args as Tuple<N>);
}

type Tuple<N extends number, T extends JaxArray[] = []> = T['length'] extends N
  ? T
  : Tuple<N, [...T, JaxArray]>;

function rankOf(x: JaxArray): number {
  return 'ndim' in x && typeof x.ndim === 'number' ? x.ndim : 0;
}

export class JaxJs implements Contestant {
  private jax: Jax | undefined;

  async open(): Promise<string> {
    const load = await loader();
    const jax = await load.jax();
    const devices = await jax.init('webgpu');
    if (!devices.includes('webgpu')) throw new Error('its WebGPU device did not start');
    jax.defaultDevice('webgpu');
    this.jax = jax;
    return `jax-js ${await load.versionOf('@jax-js/jax')}, WebGPU, jit`;
  }

  prepare(task: Task): Promise<Prepared> {
    const { jax } = this;
    if (!jax) throw new Error('not opened');
    const program = jax.jit(programOf(jax, task));
    const args = task.signature.given.map(({ name, shape }) =>
      jax.numpy.array(given(task.contents, name)).reshape(shape),
    );
    let last: JaxArray[] = [];
    const drop = (): void => last.splice(0).forEach((a) => a.dispose());
    return Promise.resolve({
      run: async () => {
        drop();
        last = program(...args.map((a) => a.ref));
        // Nothing is submitted until somebody asks for it.
        await Promise.all(last.map((a) => a.ref.gpuBuffer()));
      },
      outputs: () => Promise.all(last.map((a) => a.ref.data())),
      release: () => {
        drop();
        for (const a of args) a.dispose();
      },
    });
  }
}
