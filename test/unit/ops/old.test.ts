/**
 * What files of old operator sets mean, where a newer set says it otherwise.
 */
import assert from 'node:assert/strict';
import { close, counting, type Operand, runNode } from './fixture';

const floats = (shape: readonly number[], values: readonly number[]): Operand => ({
  shape,
  values,
});
const count = (...shape: number[]): Operand =>
  floats(shape, counting(shape.reduce((a, b) => a * b, 1)));

function first(...args: Parameters<typeof runNode>): readonly number[] {
  return runNode(...args)[0]?.values ?? [];
}

describe('ops of old operator sets', () => {
  it('Upsample takes the element at or before the coordinate, wherever its scales come from', () => {
    const rows = [0, 0, 0, 1, 1, 1];
    const scales: Operand = { shape: [3], values: [1, 1, 3], known: true };
    const graph = (attrs: Record<string, number | number[]>, more: Operand[], opset: number) =>
      first('resize', [count(1, 1, 2), ...more], { mode: 'nearest', ...attrs }, { opset });
    close(graph({}, [scales], 9), rows);
    close(
      graph(
        { coordinate_transformation_mode: 'asymmetric', nearest_mode: 'floor' } as never,
        [floats([0], []), scales],
        11,
      ),
      rows,
    );
    const image = first(
      'resize',
      [count(1, 1, 1, 2)],
      { mode: 'nearest', height_scale: 2, width_scale: 3 },
      { opset: 1 },
    );
    close(image, [...rows, ...rows]);
  });

  it('Resize 10 takes the next element on axes that get shorter', () => {
    const scales: Operand = { shape: [2], values: [2, 0.6], known: true };
    close(
      first('resize', [count(2, 5), scales], { mode: 'nearest' }, { opset: 10 }),
      [0, 2, 4, 0, 2, 4, 5, 7, 9, 5, 7, 9],
    );
  });

  it('a slope, or an exponent, of one dim stands at the axis it names or at the channels', () => {
    const x = floats([1, 2, 2], [-1, 2, -3, -4]);
    close(first('prelu', [x, floats([2], [10, 100])], {}, { opset: 6 }), [-10, 2, -300, -400]);
    const attrs = { broadcast: 1, axis: 1 };
    close(first('pow', [count(1, 2, 2), floats([2], [1, 2])], attrs, { opset: 1 }), [0, 1, 4, 9]);
  });

  it('Cast names its type', () => {
    const [y] = runNode('cast', [floats([2], [1.7, -2.2])], { to: 'INT32' }, { opset: 1 });
    assert.equal(y?.dtype, 'i32');
    close(y.values, [1, -2]);
  });

  it('BatchNormalization with spatial=0 has moments for every element', () => {
    const per = (values: number[]): Operand => floats([2, 1], values);
    const operands = [
      floats([1, 2, 1], [5, 7]),
      per([1, 2]),
      per([0, 1]),
      per([1, 3]),
      per([4, 16]),
    ];
    close(first('batch_norm', operands, { spatial: 0, epsilon: 0 }, { opset: 7 }), [2, 3]);
  });

  it('ops that were taken back', () => {
    const x = floats([1, 2, 2, 2], [1, 2, 3, 4, 5, 6, 7, 8]);
    const scaled = first('image_scaler', [x], { scale: 2, bias: [0, 1] }, { opset: 1 });
    close(scaled, [2, 4, 6, 8, 11, 13, 15, 17]);
    close(first('crop', [x], { border: [1, 0, 0, 1] }, { opset: 1 }), [2, 6]);
    close(first('crop', [x], { border: [0, 1, 0, 0], scale: [1, 2] }, { opset: 1 }), [3, 4, 7, 8]);
    close(first('affine', [floats([2], [1, 2])], { alpha: 3, beta: 4 }, { opset: 1 }), [7, 10]);
    close(first('scaled_tanh', [floats([1], [1])], { alpha: 3, beta: 2 }, { opset: 1 }), [
      3 * Math.tanh(2),
    ]);
    close(first('parametric_softplus', [floats([1], [1])], { alpha: 3, beta: 2 }, { opset: 1 }), [
      3 * Math.log1p(Math.exp(2)),
    ]);
  });

  it('cubic samples beyond the border weigh what lies there, as far out as it is', () => {
    const x = floats([1, 1, 1, 4], [0, 1, 2, 3]);
    const at = (g: number): number => {
      const grid = floats([1, 1, 1, 2], [g, 0]);
      return (
        first('grid_sample', [x, grid], {
          mode: 'cubic',
          padding_mode: 'border',
          align_corners: 1,
        })[0] ?? NaN
      );
    };
    const a = -0.75;
    const near = (d: number): number => ((a + 2) * d - (a + 3)) * d * d + 1;
    const far = (d: number): number => ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
    // Pixel 3.3: its taps are 2, 3, and twice 3 again.
    close([at(1.2)], [2 * far(1.3) + 3 * (near(0.3) + near(0.7) + far(1.7))]);
  });
});
