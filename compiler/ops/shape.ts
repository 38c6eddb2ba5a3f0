/**
 * Ops that only say where an element lies: reshapes, transposes, squeezes, broadcasts. They are views:
 * index maps over their operand that cost nothing. Also the ops that ask for a shape.
 *
 * Cutting and joining (slice, split, concat, pad) is in slicing.ts and joining.ts, making tensors
 * from nothing in creation.ts.
 */
import {
  add,
  constOf,
  type Dim,
  exactDiv,
  floorDiv,
  type IndexExpr,
  isConst,
  mod,
  mul,
  num,
  printIndex,
  printShape,
  product,
  sub,
} from '../ir/indexExpr';
import type { FuseCall, FuseForm, LowerContext, LTensor, OpDef } from './op';
import {
  attrsOf,
  AXES_PARAM,
  axesOf,
  broadcastShapes,
  checkAxes,
  expandView,
  fromOnnx,
  intList,
  optionalParam,
  reshapeView,
  sizesAttr,
  sizesOf,
  tensorParam,
  transposeView,
} from './shared';

const X = tensorParam('input', 'x', 'self');

// ---------------------------------------------------------------------------------------------
// Reshapes

/** The target shape with -1 inferred and, where the rule applies, 0 copied from the operand. */
function targetShape(
  ctx: LowerContext,
  from: readonly Dim[],
  wanted: readonly Dim[],
  zeroCopies: boolean,
): Dim[] {
  let inferred: number | undefined;
  const out = wanted.map((d, i) => {
    if (isConst(d, -1)) {
      if (inferred !== undefined)
        ctx.fail('BAD_SHAPE', `only one dim of ${printShape(wanted)} can be -1`);
      inferred = i;
      return num(1);
    }
    if (isConst(d, 0) && zeroCopies) {
      return (
        from[i] ??
        ctx.fail(
          'BAD_SHAPE',
          `dim ${i} of ${printShape(wanted)} is 0, which copies a dim of the operand, but ${printShape(from)} has only ${from.length}`,
        )
      );
    }
    const n = constOf(d);
    if (n !== undefined && n < 0) ctx.fail('BAD_SHAPE', `a dim can't be ${n}; -1 infers one dim`);
    return d;
  });
  const total = product(from);
  if (inferred === undefined) {
    ctx.requireEqual(
      product(out),
      total,
      `element counts of ${printShape(out)} and ${printShape(from)}`,
    );
    return out;
  }
  const rest = product(out);
  const whole = constOf(total);
  const part = constOf(rest);
  if (whole !== undefined && part !== undefined && (part === 0 || whole % part !== 0)) {
    ctx.fail(
      'SHAPE_MISMATCH',
      `${printShape(from)} has ${whole} elements, which the other dims of ${printShape(wanted)} (${part}) don't divide`,
    );
  }
  out[inferred] = exactDiv(total, rest) ?? floorDiv(total, rest);
  return out;
}

function reshape(ctx: LowerContext): LTensor {
  const x = ctx.input(0);
  const wanted =
    sizesOf(ctx, 1, 'shape') ?? ctx.fail('MISSING_OPERAND', 'the target shape is missing');
  const zeroCopies = fromOnnx(ctx) && !ctx.bool('allowzero', false);
  return reshapeView(ctx, x, targetShape(ctx, x.shape, wanted, zeroCopies));
}

/** ONNX: to a matrix, split before `axis`. PyTorch: dims start_dim..end_dim become one. */
function flatten(ctx: LowerContext): LTensor {
  const x = ctx.input(0);
  const rank = x.shape.length;
  if (fromOnnx(ctx)) {
    const given = ctx.int('axis', 1);
    const axis = given === rank ? rank : ctx.axis(given, rank);
    return reshapeView(ctx, x, [product(x.shape.slice(0, axis)), product(x.shape.slice(axis))]);
  }
  if (rank === 0) return reshapeView(ctx, x, [1]);
  const from = ctx.axis(ctx.int('start_dim', 0), rank);
  const to = ctx.axis(ctx.int('end_dim', -1), rank);
  if (from > to) ctx.fail('BAD_AXIS', `start_dim ${from} lies after end_dim ${to}`);
  return reshapeView(ctx, x, [
    ...x.shape.slice(0, from),
    product(x.shape.slice(from, to + 1)),
    ...x.shape.slice(to + 1),
  ]);
}

function unflatten(ctx: LowerContext): LTensor {
  const x = ctx.input(0);
  const axis = ctx.axis(ctx.int('axis'), x.shape.length);
  const sizes = sizesOf(ctx, -1, 'sizes') ?? ctx.fail('MISSING_OPERAND', 'the sizes are missing');
  const inner = targetShape(ctx, [x.shape[axis] ?? num(1)], sizes, false);
  return reshapeView(ctx, x, [...x.shape.slice(0, axis), ...inner, ...x.shape.slice(axis + 1)]);
}

function squeeze(ctx: LowerContext): LTensor {
  const x = ctx.input(0);
  const given = axesOf(ctx, 1);
  const axes = given
    ? checkAxes(ctx, given, x.shape.length)
    : x.shape.flatMap((d, i) => (isConst(d, 1) ? [i] : []));
  const dropped = axes.filter((a) => {
    const d = x.shape[a] ?? num(1);
    // PyTorch leaves a dim that isn't 1; ONNX calls it a mistake.
    if (!fromOnnx(ctx)) return isConst(d, 1);
    if (constOf(d) !== undefined && !isConst(d, 1))
      ctx.fail(
        'SHAPE_MISMATCH',
        `dim ${a} of ${printShape(x.shape)} is ${printIndex(d)}; only dims of 1 can be squeezed`,
      );
    ctx.requireEqual(d, num(1), `dim ${a} of ${printShape(x.shape)}, which is squeezed`);
    return true;
  });
  return dropDims(ctx, x, dropped);
}

function dropDims(ctx: LowerContext, x: LTensor, dropped: readonly number[]): LTensor {
  const kept = x.shape.flatMap((_, i) => (dropped.includes(i) ? [] : [i]));
  return ctx.view(
    kept.map((k) => x.shape[k] ?? num(1)),
    x,
    (index) => {
      const out: IndexExpr[] = x.shape.map(() => num(0));
      kept.forEach((k, i) => (out[k] = index[i] ?? num(0)));
      return out;
    },
  );
}

/** `x` with dims of 1 put in at these places of the result. */
export function insertDims(ctx: LowerContext, x: LTensor, places: readonly number[]): LTensor {
  const rank = x.shape.length + places.length;
  const kept = Array.from({ length: rank }, (_, i) => i).filter((i) => !places.includes(i));
  const shape: Dim[] = new Array<Dim>(rank).fill(num(1));
  kept.forEach((k, i) => (shape[k] = x.shape[i] ?? num(1)));
  return ctx.view(shape, x, (index) => kept.map((k) => index[k] ?? num(0)));
}

function unsqueeze(ctx: LowerContext): LTensor {
  const x = ctx.input(0);
  const axes = axesOf(ctx, 1) ?? ctx.fail('MISSING_OPERAND', 'the axes are missing');
  return insertDims(ctx, x, checkAxes(ctx, axes, x.shape.length + axes.length));
}

/** Broadcasts to a shape; -1 (and, in ONNX, 1) keeps a dim. */
function expand(ctx: LowerContext): LTensor {
  const x = ctx.input(0);
  const wanted =
    sizesOf(ctx, 1, 'shape') ?? ctx.fail('MISSING_OPERAND', 'the target shape is missing');
  const lead = wanted.length - x.shape.length;
  const target = wanted.map((d, i) => (isConst(d, -1) ? (x.shape[i - lead] ?? num(1)) : d));
  return expandView(ctx, x, broadcastShapes(ctx, [x.shape, target]));
}

// ---------------------------------------------------------------------------------------------
// Transposes

function transpose(ctx: LowerContext): LTensor {
  const x = ctx.input(0);
  const rank = x.shape.length;
  const identity = x.shape.map((_, i) => i);
  if (ctx.has('dim0')) {
    const a = ctx.axis(ctx.int('dim0'), rank);
    const b = ctx.axis(ctx.int('dim1'), rank);
    return transposeView(
      ctx,
      x,
      identity.map((i) => (i === a ? b : i === b ? a : i)),
    );
  }
  const perm = ctx.has('perm')
    ? checkAxes(ctx, ctx.ints('perm'), rank)
    : identity.slice().reverse();
  if (perm.length !== rank) {
    ctx.fail(
      'BAD_AXIS',
      `the permutation [${perm.join(', ')}] must name each of the ${rank} dims of ${printShape(x.shape)} once`,
    );
  }
  return transposeView(ctx, x, perm);
}

function moveDim(ctx: LowerContext): LTensor {
  const x = ctx.input(0);
  const rank = x.shape.length;
  const from = checkAxes(ctx, ctx.ints('source'), rank);
  const to = checkAxes(ctx, ctx.ints('destination'), rank);
  if (from.length !== to.length)
    ctx.fail('BAD_AXIS', `${from.length} dims can't be moved to ${to.length} places`);
  const rest = x.shape.map((_, i) => i).filter((i) => !from.includes(i));
  const perm = x.shape.map((_, i) => {
    const k = to.indexOf(i);
    return k >= 0 ? (from[k] ?? 0) : (rest.shift() ?? 0);
  });
  return transposeView(ctx, x, perm);
}

// ---------------------------------------------------------------------------------------------
// Between channels and space

interface Image {
  readonly n: Dim;
  readonly c: Dim;
  readonly h: Dim;
  readonly w: Dim;
  readonly block: number;
  /** `DCR`: the place in the block varies slowest among the channels; `CRD`: fastest. */
  readonly blockFirst: boolean;
}

function imageOf(ctx: LowerContext, x: LTensor, fallback: string): Image {
  const [n, c, h, w] = x.shape;
  if (!n || !c || !h || !w || x.shape.length !== 4)
    return ctx.fail('SHAPE_MISMATCH', `needs [N, C, H, W], but got ${printShape(x.shape)}`);
  const mode = ctx.str('mode', fallback);
  if (mode !== 'DCR' && mode !== 'CRD')
    ctx.fail('BAD_ATTRIBUTE', `'mode' must be DCR or CRD, not ${mode}`);
  const block = ctx.int('blocksize');
  if (block < 1) ctx.fail('BAD_ATTRIBUTE', `'blocksize' must be at least 1, not ${block}`);
  return { n, c, h, w, block, blockFirst: mode === 'DCR' };
}

function divided(ctx: LowerContext, x: LTensor, axis: number, by: number): Dim {
  return (
    exactDiv(x.shape[axis] ?? num(1), by) ??
    ctx.fail('SHAPE_MISMATCH', `dim ${axis} of ${printShape(x.shape)} must be a multiple of ${by}`)
  );
}

/** The channel of the packed tensor for a channel and a place in the block. */
function packedChannel(g: Image, c: IndexExpr, channels: Dim, place: IndexExpr): IndexExpr {
  return g.blockFirst ? add(mul(place, channels), c) : add(mul(c, g.block * g.block), place);
}

function depthToSpace(ctx: LowerContext): LTensor {
  const x = ctx.input(0);
  const g = imageOf(ctx, x, 'DCR');
  const channels = divided(ctx, x, 1, g.block * g.block);
  return ctx.view([g.n, channels, mul(g.h, g.block), mul(g.w, g.block)], x, (index) => {
    const [n, c, y, z] = index;
    if (!n || !c || !y || !z) return index;
    const place = add(mul(mod(y, g.block), g.block), mod(z, g.block));
    return [n, packedChannel(g, c, channels, place), floorDiv(y, g.block), floorDiv(z, g.block)];
  });
}

function spaceToDepth(ctx: LowerContext): LTensor {
  const x = ctx.input(0);
  const g = imageOf(ctx, x, 'DCR');
  const area = g.block * g.block;
  const shape = [g.n, mul(g.c, area), divided(ctx, x, 2, g.block), divided(ctx, x, 3, g.block)];
  return ctx.view(shape, x, (index) => {
    const [n, packed, y, z] = index;
    if (!n || !packed || !y || !z) return index;
    const place = g.blockFirst ? floorDiv(packed, g.c) : mod(packed, area);
    const c = g.blockFirst ? mod(packed, g.c) : floorDiv(packed, area);
    return [
      n,
      c,
      add(mul(y, g.block), floorDiv(place, g.block)),
      add(mul(z, g.block), mod(place, g.block)),
    ];
  });
}

// ---------------------------------------------------------------------------------------------
// Shapes as data

function shapeOp(ctx: LowerContext): LTensor {
  const { shape } = ctx.input(0);
  const rank = shape.length;
  const clamp = (i: number): number => Math.min(Math.max(i < 0 ? i + rank : i, 0), rank);
  const dims = shape.slice(clamp(ctx.int('start', 0)), clamp(ctx.int('end', rank)));
  return ctx.constant({ dtype: 'i64', shape: [dims.length] }, dims);
}

/** Inference: the data as it is, and a mask of true. */
// ---------------------------------------------------------------------------------------------
// The table

const identityForm = (names: readonly string[], doc: string): FuseForm => ({
  names,
  params: [X],
  doc,
});

const blockForm = (name: string, doc: string): FuseForm => ({
  names: [name],
  params: [X, { name: 'blocksize', aliases: ['block_size'], kind: 'int' }],
  doc,
});

const SHAPE_PARAM = { name: 'shape', aliases: ['size', 'sizes'], kind: 'sizes' } as const;

/** `transpose(x, [0, 2, 1])` and `transpose(x)` permute; `transpose(x, 0, 1)` swaps. */
function permutes(call: FuseCall): boolean {
  const second = call.positional[1] ?? call.named['perm'] ?? call.named['dims'];
  return (
    second === 'list' || (call.positional.length === 1 && Object.keys(call.named).length === 0)
  );
}

export const shapeOps: readonly OpDef[] = [
  {
    name: 'reshape',
    onnx: ['Reshape'],
    view: true,
    fuse: [
      {
        names: ['reshape', 'view'],
        params: [X, SHAPE_PARAM],
        attrs: (args) => attrsOf({ shape: sizesAttr(args['shape']) }),
        doc: 'the same elements in another shape; -1 infers one dim',
      },
    ],
    lower: reshape,
  },
  {
    name: 'flatten',
    onnx: ['Flatten'],
    view: true,
    fuse: [
      {
        names: ['flatten'],
        params: [
          X,
          optionalParam('start_dim', 'int', 0, 'axis', 'dim'),
          optionalParam('end_dim', 'int', -1),
        ],
        doc: 'dims start_dim to end_dim as one',
      },
    ],
    lower: flatten,
  },
  {
    name: 'unflatten',
    view: true,
    fuse: [
      {
        names: ['unflatten'],
        params: [
          X,
          { name: 'axis', aliases: ['dim'], kind: 'int' },
          { name: 'sizes', kind: 'sizes' },
        ],
        attrs: (args) =>
          attrsOf({ axis: intList(args['axis'])?.[0], sizes: sizesAttr(args['sizes']) }),
        doc: 'one dim as several',
      },
    ],
    lower: unflatten,
  },
  {
    name: 'squeeze',
    onnx: ['Squeeze'],
    view: true,
    fuse: [
      {
        names: ['squeeze'],
        params: [X, AXES_PARAM],
        attrs: (args) => attrsOf({ axes: intList(args['axis']) }),
        doc: 'without dims of 1: all, or those named',
      },
    ],
    lower: squeeze,
  },
  {
    name: 'unsqueeze',
    onnx: ['Unsqueeze'],
    view: true,
    fuse: [
      {
        names: ['unsqueeze', 'expand_dims'],
        params: [X, { name: 'axis', aliases: ['dim', 'axes', 'dims'], kind: 'ints' }],
        attrs: (args) => attrsOf({ axes: intList(args['axis']) }),
        doc: 'with a dim of 1 put in',
      },
    ],
    lower: unsqueeze,
  },
  {
    name: 'expand',
    onnx: ['Expand'],
    view: true,
    fuse: [
      {
        names: ['expand', 'broadcast_to'],
        params: [X, SHAPE_PARAM],
        attrs: (args) => attrsOf({ shape: sizesAttr(args['shape']) }),
        doc: 'broadcast to a shape; -1 keeps a dim',
      },
    ],
    lower: expand,
  },
  {
    name: 'expand_as',
    view: true,
    fuse: [
      {
        names: ['expand_as'],
        params: [X, tensorParam('other')],
        doc: "broadcast to the other tensor's shape",
      },
    ],
    lower: (ctx) => {
      const x = ctx.input(0);
      return expandView(ctx, x, broadcastShapes(ctx, [x.shape, ctx.input(1).shape]));
    },
  },
  {
    name: 'reshape_as',
    view: true,
    fuse: [
      {
        names: ['reshape_as', 'view_as'],
        params: [X, tensorParam('other')],
        doc: "the same elements in the other tensor's shape",
      },
    ],
    lower: (ctx) => {
      const x = ctx.input(0);
      return reshapeView(ctx, x, targetShape(ctx, x.shape, ctx.input(1).shape, false));
    },
  },
  {
    name: 'transpose',
    onnx: ['Transpose'],
    view: true,
    fuse: [
      {
        names: ['permute'],
        params: [X, { name: 'dims', aliases: ['perm', 'axes', 'axis', 'dim'], kind: 'ints' }],
        attrs: (args) => attrsOf({ perm: intList(args['dims']) }),
        doc: 'dim i of the result is dim dims[i] of x',
      },
      {
        names: ['transpose'],
        matches: permutes,
        params: [X, { ...optionalParam('dims', 'ints'), aliases: ['perm', 'axes'] }],
        attrs: (args) => attrsOf({ perm: intList(args['dims']) }),
        doc: 'dims in the given order; without one, in reverse',
      },
      {
        names: ['transpose', 'swapaxes', 'swapdims'],
        params: [
          X,
          { name: 'dim0', aliases: ['axis0'], kind: 'int' },
          { name: 'dim1', aliases: ['axis1'], kind: 'int' },
        ],
        doc: 'two dims swapped',
      },
      { names: ['t'], params: [X], attrs: () => ({}), doc: 'a matrix transposed' },
    ],
    lower: transpose,
  },
  {
    name: 'movedim',
    view: true,
    fuse: [
      {
        names: ['movedim', 'moveaxis'],
        params: [X, { name: 'source', kind: 'ints' }, { name: 'destination', kind: 'ints' }],
        attrs: (args) =>
          attrsOf({ source: intList(args['source']), destination: intList(args['destination']) }),
        doc: 'dims moved to other places, the rest in order',
      },
    ],
    lower: moveDim,
  },
  {
    name: 'flip',
    view: true,
    fuse: [
      {
        names: ['flip', 'reverse'],
        params: [X, { name: 'axis', aliases: ['dim', 'axes', 'dims'], kind: 'ints' }],
        attrs: (args) => attrsOf({ axes: intList(args['axis']) }),
        doc: 'backwards along the axes',
      },
    ],
    lower: (ctx) => {
      const x = ctx.input(0);
      const axes = checkAxes(ctx, ctx.ints('axes'), x.shape.length);
      return ctx.view(x.shape, x, (index) =>
        index.map((v, i) => (axes.includes(i) ? sub(sub(x.shape[i] ?? num(1), 1), v) : v)),
      );
    },
  },
  {
    name: 'depth_to_space',
    onnx: ['DepthToSpace'],
    view: true,
    fuse: [
      {
        names: ['pixel_shuffle'],
        params: [X, { name: 'upscale_factor', aliases: ['blocksize', 'block_size'], kind: 'int' }],
        attrs: (args) => attrsOf({ blocksize: intList(args['upscale_factor'])?.[0], mode: 'CRD' }),
        doc: 'channels to blocks of pixels, the place in the block varying fastest',
      },
      blockForm(
        'depth_to_space',
        'channels to blocks of pixels, the place in the block varying slowest',
      ),
    ],
    lower: depthToSpace,
  },
  {
    name: 'space_to_depth',
    onnx: ['SpaceToDepth'],
    view: true,
    fuse: [
      {
        names: ['pixel_unshuffle'],
        params: [
          X,
          { name: 'downscale_factor', aliases: ['blocksize', 'block_size'], kind: 'int' },
        ],
        attrs: (args) =>
          attrsOf({ blocksize: intList(args['downscale_factor'])?.[0], mode: 'CRD' }),
        doc: 'blocks of pixels to channels, the place in the block varying fastest',
      },
      blockForm(
        'space_to_depth',
        'blocks of pixels to channels, the place in the block varying slowest',
      ),
    ],
    lower: spaceToDepth,
  },
  {
    name: 'identity',
    onnx: ['Identity'],
    view: true,
    fuse: [identityForm(['identity', 'contiguous', 'detach', 'clone'], 'the operand itself')],
    lower: (ctx) => ctx.input(0),
  },
  { name: 'shape', onnx: ['Shape'], lower: shapeOp },
  {
    name: 'size',
    onnx: ['Size'],
    lower: (ctx) => ctx.constant({ dtype: 'i64', shape: [] }, [product(ctx.input(0).shape)]),
  },
];
