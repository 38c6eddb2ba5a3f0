/**
 * WGSL functions for what the language lacks, or leaves undefined where we promise a value.
 *
 * Sources: erf is the rational approximation 7.1.26 of Abramowitz and Stegun refined by a series
 * near zero (relative error below 2e-7 in f32); log1p and expm1 follow Kahan's compensated forms.
 */

export interface Helper {
  readonly name: HelperName;
  readonly code: string;
  readonly needs?: readonly HelperName[];
}

export type HelperName =
  | 'fl_inf'
  | 'fl_nan'
  | 'fl_isnan'
  | 'fl_isinf'
  | 'fl_floordiv'
  | 'fl_floormod'
  | 'fl_fmodf'
  | 'fl_pow'
  | 'fl_powi'
  | 'fl_powu'
  | 'fl_turn'
  | 'fl_sin'
  | 'fl_cos'
  | 'fl_tan'
  | 'fl_acos'
  | 'fl_square'
  | 'fl_cube'
  | 'fl_tanh'
  | 'fl_erf'
  | 'fl_expm1'
  | 'fl_log'
  | 'fl_log1p'
  | 'fl_asinh'
  | 'fl_acosh'
  | 'fl_atanh'
  | 'fl_f16'
  | 'fl_half'
  | 'fl_bf16';

/** In an order that defines a helper before its users (for readers; WGSL itself doesn't care). */
export const HELPERS: readonly Helper[] = [
  {
    // A constant infinity is refused when the shader is compiled, so it is made at run time.
    name: 'fl_inf',
    code: `fn fl_inf() -> f32 {
  var bits = 0x7f800000u;
  return bitcast<f32>(bits);
}`,
  },
  {
    name: 'fl_nan',
    code: `fn fl_nan() -> f32 {
  var bits = 0x7fc00000u;
  return bitcast<f32>(bits);
}`,
  },
  {
    name: 'fl_isnan',
    code: `fn fl_isnan(x: f32) -> bool {
  return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u;
}`,
  },
  {
    name: 'fl_isinf',
    code: `fn fl_isinf(x: f32) -> bool {
  return (bitcast<u32>(x) & 0x7fffffffu) == 0x7f800000u;
}`,
  },
  {
    name: 'fl_floordiv',
    code: `fn fl_floordiv(a: i32, b: i32) -> i32 {
  let q = a / b;
  return select(q, q - 1, a % b != 0 && (a < 0) != (b < 0));
}`,
  },
  {
    name: 'fl_floormod',
    code: `fn fl_floormod(a: i32, b: i32) -> i32 {
  let r = a % b;
  return select(r, r + b, r != 0 && (r < 0) != (b < 0));
}`,
  },
  {
    name: 'fl_fmodf',
    code: `fn fl_fmodf(a: f32, b: f32) -> f32 {
  return a - b * floor(a / b);
}`,
  },
  {
    // pow of a negative base is undefined in WGSL; here it is real for whole exponents, NaN otherwise.
    name: 'fl_pow',
    needs: ['fl_nan'],
    code: `fn fl_pow(a: f32, b: f32) -> f32 {
  if (b == 0.0) { return 1.0; }
  if (a > 0.0) { return pow(a, b); }
  if (a == 0.0) { return select(1.0 / abs(a), 0.0, b > 0.0); }
  if (b != floor(b)) { return fl_nan(); }
  let p = pow(-a, b);
  return select(p, -p, abs(b) - 2.0 * floor(abs(b) * 0.5) == 1.0);
}`,
  },
  {
    name: 'fl_powi',
    code: `fn fl_powi(a: i32, b: i32) -> i32 {
  if (b < 0) { return select(select(0, select(1, -1, (b & 1) != 0), a == -1), 1, a == 1); }
  var r = 1;
  var x = a;
  var n = b;
  while (n > 0) {
    if ((n & 1) != 0) { r = r * x; }
    x = x * x;
    n = n >> 1u;
  }
  return r;
}`,
  },
  {
    name: 'fl_powu',
    code: `fn fl_powu(a: u32, b: u32) -> u32 {
  var r = 1u;
  var x = a;
  var n = b;
  while (n > 0u) {
    if ((n & 1u) != 0u) { r = r * x; }
    x = x * x;
    n = n >> 1u;
  }
  return r;
}`,
  },
  {
    // WGSL allows sin and cos an absolute error of 2^-11, and software adapters use it up. Here: the
    // angle less a whole number of quarter turns (pi/2 in three parts, after Cody and Waite), then
    // the polynomials of the Cephes library's single-precision functions on [-pi/4, pi/4].
    // Gives (sin, cos) of the angle; good to 2e-7 for |x| up to some 10^4.
    name: 'fl_turn',
    code: `fn fl_turn(x: f32) -> vec2<f32> {
  let q = round(x * 0.6366197723675814);
  let r = ((x - q * 1.5703125) - q * 4.837512969970703e-4) - q * 7.54978995489188e-8;
  let z = r * r;
  let s = r + r * z * (-0.16666654611 + z * (8.3321608736e-3 - z * 1.9515295891e-4));
  let c = 1.0 - 0.5 * z + z * z * (4.166664568298827e-2 + z * (-1.388731625493765e-3 + z * 2.443315711809948e-5));
  let n = i32(q - 4.0 * floor(q * 0.25));
  let swapped = select(vec2<f32>(s, c), vec2<f32>(c, -s), (n & 1) != 0);
  return select(swapped, -swapped, (n & 2) != 0);
}`,
  },
  {
    name: 'fl_sin',
    needs: ['fl_turn'],
    code: `fn fl_sin(x: f32) -> f32 {
  return fl_turn(x).x;
}`,
  },
  {
    name: 'fl_cos',
    needs: ['fl_turn'],
    code: `fn fl_cos(x: f32) -> f32 {
  return fl_turn(x).y;
}`,
  },
  {
    name: 'fl_tan',
    needs: ['fl_turn'],
    code: `fn fl_tan(x: f32) -> f32 {
  let t = fl_turn(x);
  return t.x / t.y;
}`,
  },
  {
    // The built-in may be off by 2^-14 near 1; half-angle forms keep the digits there.
    name: 'fl_acos',
    code: `fn fl_acos(x: f32) -> f32 {
  if (x > 0.5) { return 2.0 * asin(sqrt(0.5 * (1.0 - x))); }
  if (x < -0.5) { return 3.14159265 - 2.0 * asin(sqrt(0.5 * (1.0 + x))); }
  return 1.57079633 - asin(x);
}`,
  },
  {
    name: 'fl_square',
    code: `fn fl_square(x: f32) -> f32 {
  return x * x;
}`,
  },
  {
    name: 'fl_cube',
    code: `fn fl_cube(x: f32) -> f32 {
  return x * x * x;
}`,
  },
  {
    // Beyond 15 the function is 1 to the last bit, while exp would overflow.
    name: 'fl_tanh',
    code: `fn fl_tanh(x: f32) -> f32 {
  return tanh(clamp(x, -15.0, 15.0));
}`,
  },
  {
    name: 'fl_erf',
    code: `fn fl_erf(x: f32) -> f32 {
  let a = abs(x);
  if (a < 0.5) {
    let z = x * x;
    return x * (1.1283791671 + z * (-0.3761263890 + z * (0.1128379167 + z * (-0.0268661706 + z * (0.0052239776 - z * 0.0008548327)))));
  }
  let t = 1.0 / (1.0 + 0.3275911 * a);
  let p = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))));
  return sign(x) * (1.0 - p * exp(-min(a * a, 80.0)));
}`,
  },
  {
    name: 'fl_expm1',
    code: `fn fl_expm1(x: f32) -> f32 {
  if (abs(x) < 0.25) {
    return x * (1.0 + x * (0.5 + x * (0.16666667 + x * (0.041666668 + x * (0.008333334 + x * 0.0013888889)))));
  }
  return exp(x) - 1.0;
}`,
  },
  {
    // SwiftShader gives -88 for zero, the logarithm of the least number that isn't subnormal.
    name: 'fl_log',
    needs: ['fl_inf'],
    code: `fn fl_log(x: f32) -> f32 {
  return select(log(x), -fl_inf(), x == 0.0);
}`,
  },
  {
    name: 'fl_log1p',
    needs: ['fl_log'],
    code: `fn fl_log1p(x: f32) -> f32 {
  if (abs(x) < 0.0625) {
    return x * (1.0 + x * (-0.5 + x * (0.33333334 + x * (-0.25 + x * (0.2 + x * -0.16666667)))));
  }
  return fl_log(1.0 + x);
}`,
  },
  {
    name: 'fl_asinh',
    needs: ['fl_log1p'],
    code: `fn fl_asinh(x: f32) -> f32 {
  let a = abs(x);
  return sign(x) * select(fl_log1p(a + a * a / (1.0 + sqrt(1.0 + a * a))), log(a) + 0.6931472, a > 1e9);
}`,
  },
  {
    name: 'fl_acosh',
    code: `fn fl_acosh(x: f32) -> f32 {
  return select(log(x + sqrt((x - 1.0) * (x + 1.0))), log(x) + 0.6931472, x > 1e9);
}`,
  },
  {
    name: 'fl_atanh',
    needs: ['fl_log1p'],
    code: `fn fl_atanh(x: f32) -> f32 {
  return 0.5 * fl_log1p(2.0 * x / (1.0 - x));
}`,
  },
  {
    // Rounds to the nearest half, ties to even; beyond its range to infinity.
    name: 'fl_f16',
    needs: ['fl_inf', 'fl_isnan'],
    code: `fn fl_f16(x: f32) -> f32 {
  if (fl_isnan(x)) { return x; }
  if (abs(x) >= 65520.0) { return sign(x) * fl_inf(); }
  return quantizeToF16(clamp(x, -65504.0, 65504.0));
}`,
  },
  {
    name: 'fl_half',
    code: `fn fl_half(x: f32) -> f16 {
  var bits = bitcast<u32>(x);
  return f16(bitcast<f32>(bits));
}`,
  },
  {
    name: 'fl_bf16',
    needs: ['fl_isnan'],
    code: `fn fl_bf16(x: f32) -> f32 {
  if (fl_isnan(x)) { return x; }
  let bits = bitcast<u32>(x);
  return bitcast<f32>((bits + 0x7fffu + ((bits >> 16u) & 1u)) & 0xffff0000u);
}`,
  },
];
