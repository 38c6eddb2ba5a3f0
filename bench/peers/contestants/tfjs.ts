/** TensorFlow.js with its WebGPU backend, with the fused ops that it offers. */
import { given, Unsupported, type Contestant, type Prepared, type Task } from './contestant';
import { loader, type Tf, type TfTensor } from './peers';

type Get = (name: string) => TfTensor;
type Program = (tf: Tf, t: Get) => TfTensor[];

const norm = (tf: Tf, x: TfTensor, gamma: TfTensor, beta: TfTensor): TfTensor => {
  const { mean, variance } = tf.moments(x, -1, true);
  const scaled = tf.mul(tf.sub(x, mean), tf.rsqrt(tf.add(variance, tf.scalar(1e-5))));
  return tf.add(tf.mul(scaled, gamma), beta);
};

const attention = (tf: Tf, q: TfTensor, k: TfTensor, v: TfTensor): TfTensor => {
  const scores = tf.mul(tf.matMul(q, k, false, true), tf.scalar(0.125));
  return tf.matMul(tf.softmax(scores, -1), v);
};

const dense = (
  tf: Tf,
  x: TfTensor,
  w: TfTensor,
  bias: TfTensor,
  activation: 'relu' | 'linear',
): TfTensor => tf.fused.matMul({ a: x, b: w, bias, activation });

function programOf({ workload: { kind } }: Task): Program {
  switch (kind) {
    case 'bias-relu':
      return (tf, t) => [tf.relu(tf.add(t('x'), t('bias')))];
    case 'chain':
      return (tf, t) => {
        const r = tf.relu(tf.add(tf.mul(t('x'), t('scale')), t('bias')));
        const s = tf.sqrt(tf.add(tf.mul(r, tf.scalar(0.5)), tf.scalar(1)));
        return [tf.abs(tf.sub(s, t('x')))];
      };
    case 'softmax':
      return (tf, t) => [tf.softmax(t('x'), -1)];
    case 'layer-norm':
      return (tf, t) => [norm(tf, tf.relu(tf.add(t('x'), t('bias'))), t('gamma'), t('beta'))];
    case 'matmul':
      return (tf, t) => [dense(tf, t('x'), t('w'), t('bias'), 'relu')];
    case 'convolutions':
      return (tf, t) => ['w1', 'w2'].map((w) => tf.conv2d(t('x'), t(w), 1, 'same', 'NHWC'));
    case 'attention':
      return (tf, t) => [attention(tf, t('q'), t('k'), t('v'))];
    case 'mlp':
      return (tf, t) => {
        const h1 = dense(tf, t('x'), t('w1'), t('b1'), 'relu');
        const h2 = dense(tf, h1, t('w2'), t('b2'), 'relu');
        return [dense(tf, h2, t('w3'), t('b3'), 'linear')];
      };
    case 'transformer':
      return (tf, t) => {
        const n = norm(tf, t('x'), t('g1'), t('c1'));
        const qkv = tf.split(dense(tf, n, t('wqkv'), t('bqkv'), 'linear'), 3, -1);
        const [q, k, v] = qkv.map((x) => tf.transpose(tf.reshape(x, [128, 4, 64]), [1, 0, 2]));
        if (!q || !k || !v) throw new Error('the split gave too little');
        const mixed = tf.reshape(tf.transpose(attention(tf, q, k, v), [1, 0, 2]), [128, 256]);
        const a = tf.add(dense(tf, mixed, t('wout'), t('bout'), 'linear'), t('x'));
        const up = dense(tf, norm(tf, a, t('g2'), t('c2')), t('wup'), t('bup'), 'linear');
        const bell = tf.add(tf.erf(tf.mul(up, tf.scalar(Math.SQRT1_2))), tf.scalar(1));
        const gelu = tf.mul(tf.mul(up, tf.scalar(0.5)), bell);
        return [tf.add(dense(tf, gelu, t('wdown'), t('bdown'), 'linear'), a)];
      };
    case 'model':
      throw new Unsupported('reads no ONNX files');
  }
}

export class Tensorflow implements Contestant {
  private tf: Tf | undefined;

  async open(): Promise<string> {
    const load = await loader();
    const tf = await load.tfjs();
    await tf.setBackend('webgpu');
    await tf.ready();
    if (tf.getBackend() !== 'webgpu') throw new Error('the WebGPU backend did not start');
    this.tf = tf;
    return `TensorFlow.js ${await load.versionOf('@tensorflow/tfjs-core')}, WebGPU backend`;
  }

  prepare(task: Task): Promise<Prepared> {
    const { tf } = this;
    if (!tf) throw new Error('not opened');
    const program = programOf(task);
    const convolutions = task.workload.kind === 'convolutions';
    const tensors = new Map(
      task.signature.given.map(({ name, shape }) => {
        const data = given(task.contents, name);
        if (!convolutions) return [name, tf.tensor(data, shape)];
        // Its own layouts: pictures with channels last, filters as [height, width, in, out].
        const order = name === 'x' ? [0, 2, 3, 1] : [2, 3, 1, 0];
        const dims = order.map((d) => shape[d] ?? 1);
        return [name, tf.tensor(permuted(data, shape, order), dims)];
      }),
    );
    const get: Get = (name) => {
      const t = tensors.get(name);
      if (!t) throw new Error(`there is no tensor ${name}`);
      return t;
    };
    let last: TfTensor[] = [];
    const drop = (): void => last.forEach((t) => t.dispose());
    return Promise.resolve({
      run: () => {
        drop();
        last = tf.tidy(() => program(tf, get));
        const backend = tf.backend();
        backend.endComputePassEncoder();
        backend.submitQueue();
      },
      outputs: async () => {
        const out: ArrayLike<number>[] = [];
        for (const t of last) {
          const data = await t.data();
          out.push(convolutions ? permuted(data, t.shape, [0, 3, 1, 2]) : data);
        }
        return out;
      },
      release: () => {
        drop();
        for (const t of tensors.values()) t.dispose();
      },
    });
  }
}

/** The elements of a tensor with four dims, in another order of the dims. */
function permuted(
  data: ArrayLike<number>,
  shape: readonly number[],
  order: readonly number[],
): Float32Array {
  const out = new Float32Array(data.length);
  const strides = shape.map((_, d) => shape.slice(d + 1).reduce((a, b) => a * b, 1));
  const [n0 = 1, n1 = 1, n2 = 1, n3 = 1] = order.map((d) => shape[d] ?? 1);
  const [s0 = 0, s1 = 0, s2 = 0, s3 = 0] = order.map((d) => strides[d] ?? 0);
  let at = 0;
  for (let a = 0; a < n0; a++)
    for (let b = 0; b < n1; b++)
      for (let c = 0; c < n2; c++)
        for (let d = 0; d < n3; d++) out[at++] = data[a * s0 + b * s1 + c * s2 + d * s3] ?? 0;
  return out;
}
