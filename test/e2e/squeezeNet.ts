/**
 * SqueezeNet 1.0 as an ONNX file, its weights made by ConstantOfShape: a real network of 66 ops in a
 * few kilobytes, for tests that open one.
 *
 * Source of the architecture: Iandola et al., "SqueezeNet: AlexNet-level accuracy with 50x fewer
 * parameters and <0.5MB model size", 2016, table 1.
 */
import {
  attr,
  type Bytes,
  FLOAT,
  floatBits,
  INT64,
  int64Bits,
  model,
  node,
  raw,
  tensor,
  value,
} from '../unit/onnx/encoder';

export function squeezeNet(): Uint8Array {
  const nodes: Bytes[] = [];
  const initializers: Bytes[] = [];
  let count = 0;
  const fresh = (): string => `r${count++}`;

  const weight = (name: string, shape: number[]): string => {
    initializers.push(tensor(`${name}_shape`, INT64, [shape.length], raw(...int64Bits(...shape))));
    nodes.push(
      node('ConstantOfShape', [`${name}_shape`], [name], {
        name,
        attrs: [attr.tensor('value', tensor('', FLOAT, [1], raw(...floatBits(0.01))))],
      }),
    );
    return name;
  };
  const conv = (
    name: string,
    x: string,
    from: number,
    to: number,
    kernel: number,
    pad: number,
    stride = 1,
  ): string => {
    const y = fresh();
    const z = fresh();
    const inputs = [x, weight(`${name}_w`, [to, from, kernel, kernel]), weight(`${name}_b`, [to])];
    const attrs = [
      attr.ints('kernel_shape', [kernel, kernel]),
      attr.ints('strides', [stride, stride]),
      attr.ints('pads', [pad, pad, pad, pad]),
    ];
    nodes.push(node('Conv', inputs, [y], { name, attrs }));
    nodes.push(node('Relu', [y], [z], { name: `${name}_relu` }));
    return z;
  };
  const pool = (x: string): string => {
    const y = fresh();
    const attrs = [attr.ints('kernel_shape', [3, 3]), attr.ints('strides', [2, 2])];
    nodes.push(node('MaxPool', [x], [y], { attrs }));
    return y;
  };
  const fire = (name: string, x: string, from: number, squeeze: number, expand: number): string => {
    const s = conv(`${name}_squeeze`, x, from, squeeze, 1, 0);
    const a = conv(`${name}_expand1x1`, s, squeeze, expand, 1, 0);
    const b = conv(`${name}_expand3x3`, s, squeeze, expand, 3, 1);
    const y = fresh();
    nodes.push(
      node('Concat', [a, b], [y], { name: `${name}_concat`, attrs: [attr.int('axis', 1)] }),
    );
    return y;
  };

  let x = pool(conv('conv1', 'image', 3, 96, 7, 0, 2));
  x = fire('fire2', x, 96, 16, 64);
  x = fire('fire3', x, 128, 16, 64);
  x = pool(fire('fire4', x, 128, 32, 128));
  x = fire('fire5', x, 256, 32, 128);
  x = fire('fire6', x, 256, 48, 192);
  x = fire('fire7', x, 384, 48, 192);
  x = pool(fire('fire8', x, 384, 64, 256));
  x = fire('fire9', x, 512, 64, 256);
  const dropped = fresh();
  nodes.push(node('Dropout', [x], [dropped], { name: 'drop9' }));
  x = conv('conv10', dropped, 512, 1000, 1, 0);
  const pooled = fresh();
  nodes.push(node('GlobalAveragePool', [x], [pooled], { name: 'pool10' }));
  nodes.push(node('Flatten', [pooled], ['scores']));
  nodes.push(
    node('Softmax', ['scores'], ['probabilities'], {
      name: 'softmax',
      attrs: [attr.int('axis', 1)],
    }),
  );
  return model({
    nodes,
    initializers,
    inputs: [value('image', FLOAT, [1, 3, 224, 224])],
    outputs: [value('probabilities', FLOAT, [1, 1000])],
  });
}
