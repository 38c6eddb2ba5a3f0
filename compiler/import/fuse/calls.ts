/**
 * Binding a call's arguments to the parameters of an op's form: positional and named ones, aliases,
 * kinds, defaults, counts. What doesn't fit is a diagnostic that says what would.
 */
import { error, type Diagnostic, type QuickFix, type SourceRange } from '../../diagnostics';
import type { Attrs, AttrValue, TensorId } from '../../graph/graph';
import { constOf, ix, type Dim } from '../../ir/indexExpr';
import type { FuseArg, FuseCall, FuseForm, FuseParam, OpDef } from '../../ops/op';
import type { Named } from './ast';
import { nearest } from './suggest';
import { argumentKind, asDim, describeValue, dtypeOf, type Value } from './values';

export interface BoundArgument {
  readonly name?: Named;
  readonly value: Value;
  readonly range: SourceRange;
}

export interface BoundCall {
  readonly attrs: Attrs;
  readonly operands: readonly (TensorId | undefined)[];
  /** undefined: it depends on what isn't known yet. */
  readonly results: number | undefined;
}

export interface CallSite {
  /** As spelled, for messages. */
  readonly callee: string;
  readonly range: SourceRange;
}

/** What binding needs from the binder of the file. */
export interface CallHost {
  report(diagnostic: Diagnostic): void;
  /** The value as a tensor of the graph: numbers and lists of numbers become constants. */
  tensor(value: Value, range: SourceRange): TensorId | undefined;
}

export interface FormChoice {
  readonly op: OpDef;
  readonly form: FuseForm;
}

/** The first form of the name that the call fits; forms without a condition fit every call. */
export function chooseForm(
  forms: readonly FormChoice[],
  args: readonly BoundArgument[],
): FormChoice | undefined {
  let call: FuseCall | undefined;
  for (const choice of forms) {
    if (!choice.form.matches) return choice;
    call ??= callOf(args);
    if (choice.form.matches(call)) return choice;
  }
  return forms[0];
}

function callOf(args: readonly BoundArgument[]): FuseCall {
  return {
    positional: args.filter((a) => !a.name).map((a) => argumentKind(a.value)),
    named: Object.fromEntries(
      args.flatMap((a) => (a.name ? [[a.name.name, argumentKind(a.value)] as const] : [])),
    ),
  };
}

/** `layer_norm(x, weight?, bias?, axis=-1, eps=0.00001)`. */
export function signature(form: FuseForm, name = form.names[0] ?? ''): string {
  return `${name}(${form.params.map(signatureParam).join(', ')})`;
}

export function signatureParam(p: FuseParam): string {
  const shown = p.default === undefined ? undefined : printArg(p.default);
  if (shown !== undefined) return `${p.name}=${shown}`;
  return p.optional ? `${p.name}?` : p.name;
}

function printArg(a: FuseArg): string | undefined {
  if (typeof a !== 'object') return a === undefined ? undefined : String(a);
  if (isList(a)) return `[${a.map((d) => printArg(d) ?? '').join(', ')}]`;
  return String(constOf(a) ?? a.key);
}

function isList(
  a: Dim | readonly number[] | readonly Dim[],
): a is readonly number[] | readonly Dim[] {
  return Array.isArray(a);
}

/** Names that mean the same in every op, whichever of them its table lists. */
const SYNONYMS: readonly (readonly string[])[] = [
  ['axis', 'dim', 'axes', 'dims'],
  ['keepdim', 'keepdims', 'keep_dims'],
  ['input', 'x', 'self', 'a'],
  ['other', 'y', 'b'],
  ['eps', 'epsilon'],
];

/** Arguments of PyTorch that say nothing here: where a result lies is decided by the plan, where it runs by the host. */
const SAYS_NOTHING: ReadonlySet<string> = new Set([
  'inplace',
  'device',
  'requires_grad',
  'non_blocking',
  'memory_format',
]);

function paramByName(form: FuseForm, name: string): FuseParam | undefined {
  const direct = form.params.find((p) => p.name === name || p.aliases?.includes(name));
  if (direct) return direct;
  const group = SYNONYMS.find((g) => g.includes(name));
  return group && form.params.find((p) => group.includes(p.name));
}

/** The arguments in the parameters' places, as operands and attributes; undefined when some don't fit. */
export function bindCall(
  host: CallHost,
  site: CallSite,
  { form }: FormChoice,
  args: readonly BoundArgument[],
): BoundCall | undefined {
  const given = placeArguments(host, site, form, args);
  if (!given) return undefined;
  const bound: Record<string, FuseArg> = {};
  const operands: (TensorId | undefined)[] = [];
  let ok = true;
  for (const p of form.params) {
    const placed = given.get(p.name);
    const values = placed?.some((a) => a.value.kind === 'none')
      ? placed.filter((a) => a.value.kind !== 'none')
      : placed;
    if (!values || values.length === 0) {
      if (!p.optional && p.default === undefined) {
        const message = `${site.callee} needs ${p.name}: ${signature(form, site.callee)}.`;
        host.report(error('MISSING_ARGUMENT', message, site.range));
        ok = false;
      } else if (p.kind === 'tensor') {
        operands.push(
          typeof p.default === 'number'
            ? host.tensor(
                { kind: 'number', value: p.default, whole: Number.isInteger(p.default) },
                site.range,
              )
            : undefined,
        );
      } else if (p.kind !== 'tensors') bound[p.name] = p.default;
      continue;
    }
    const first = values[0];
    if (!first) continue;
    if (p.kind === 'tensors') {
      const ids = tensorList(host, site, p, values);
      // Not push(...ids): a list may be longer than the stack bears.
      if (ids) for (const id of ids) operands.push(id);
      else ok = false;
      continue;
    }
    if (p.kind === 'tensor') {
      const id = oneTensor(host, site, p, first);
      if (id === undefined) ok = false;
      operands.push(id);
      continue;
    }
    const value: Value =
      values.length === 1 ? first.value : { kind: 'list', items: values.map((v) => v.value) };
    const converted = convert(p, value);
    if ('fault' in converted) {
      if (first.value.kind !== 'faulty') {
        const message = `${p.name} of ${site.callee} must be ${converted.fault}, not ${describeValue(first.value)}.`;
        host.report(error('WRONG_KIND', message, first.range));
      }
      ok = false;
    } else bound[p.name] = converted.arg;
  }
  if (!ok) return undefined;
  while (operands.length > 0 && operands[operands.length - 1] === undefined) operands.pop();
  const results = typeof form.results === 'function' ? form.results(bound) : (form.results ?? 1);
  return { attrs: form.attrs ? form.attrs(bound) : plainAttrs(bound), operands, results };
}

/** The arguments by parameter name; a `tensors` parameter may take several. */
function placeArguments(
  host: CallHost,
  site: CallSite,
  form: FuseForm,
  args: readonly BoundArgument[],
): Map<string, BoundArgument[]> | undefined {
  const given = new Map<string, BoundArgument[]>();
  let ok = true;
  const fault = (
    code: string,
    message: string,
    range: SourceRange,
    fixes: QuickFix[] = [],
  ): void => {
    host.report(error(code, message, range, fixes.length > 0 ? { fixes } : {}));
    ok = false;
  };
  let position = 0;
  let named: Named | undefined;
  for (const [i, a] of args.entries()) {
    if (a.name) {
      named = a.name;
      const p = paramByName(form, a.name.name);
      if (!p) {
        if (SAYS_NOTHING.has(a.name.name)) continue;
        unknownArgument(form, site, a.name, fault);
      } else if (given.has(p.name)) {
        fault('DUPLICATE_ARGUMENT', `${p.name} is given twice.`, a.name.range);
      } else given.set(p.name, [a]);
      continue;
    }
    if (named) {
      fault(
        'POSITIONAL_AFTER_NAMED',
        `This needs a name too: it stands after ${named.name}=….`,
        a.range,
      );
      continue;
    }
    const p = form.params[position];
    if (!p) {
      const most = form.params.length;
      const message = `${site.callee} takes ${most === 0 ? 'no' : `at most ${most}`} argument${most === 1 ? '' : 's'}: ${signature(form, site.callee)}.`;
      fault('TOO_MANY_ARGUMENTS', message, a.range);
      break;
    }
    const list = given.get(p.name);
    if (list) list.push(a);
    else given.set(p.name, [a]);
    const next = args[i + 1];
    // What follows it could be no number.
    const last = form.params.slice(position + 1).every((x) => x.kind === 'dtype');
    if (!next || next.name || !continuesList(p, last, a.value, next.value)) position++;
  }
  return ok ? given : undefined;
}

/** `cat(a, b)` is understood as `cat([a, b])`, and `permute(x, 0, 2, 1)` as `permute(x, [0, 2, 1])`. */
function continuesList(p: FuseParam, last: boolean, value: Value, next: Value): boolean {
  if (p.kind === 'tensors') return isTensorLike(value) && isTensorLike(next);
  const numbers = last && (p.kind === 'sizes' || p.kind === 'ints');
  return numbers && argumentKind(value) === 'number' && argumentKind(next) === 'number';
}

function isTensorLike(v: Value): boolean {
  return v.kind === 'tensor' || v.kind === 'faulty' || v.kind === 'results';
}

function unknownArgument(
  form: FuseForm,
  site: CallSite,
  name: Named,
  fault: (code: string, message: string, range: SourceRange, fixes?: QuickFix[]) => void,
): void {
  const names = form.params.flatMap((p) => [p.name, ...(p.aliases ?? [])]);
  const meant = nearest(name.name, names);
  fault(
    'UNKNOWN_ARGUMENT',
    meant === undefined
      ? `${site.callee} has no argument ${name.name}: ${signature(form, site.callee)}.`
      : `${site.callee} has no argument ${name.name}. Did you mean ${meant}?`,
    name.range,
    meant === undefined
      ? []
      : [{ title: `Change to ${meant}`, edits: [{ range: name.range, newText: meant }] }],
  );
}

function oneTensor(
  host: CallHost,
  site: CallSite,
  p: FuseParam,
  a: BoundArgument,
): TensorId | undefined {
  if (a.value.kind === 'faulty') return undefined;
  const id = host.tensor(a.value, a.range);
  if (id !== undefined) return id;
  const why =
    a.value.kind === 'results' ? ' Name them first, a, b = …, or take one of them: …[0].' : '';
  const message = `${p.name} of ${site.callee} must be a tensor or a number, not ${describeValue(a.value)}.${why}`;
  host.report(error('WRONG_KIND', message, a.range));
  return undefined;
}

function tensorList(
  host: CallHost,
  site: CallSite,
  p: FuseParam,
  args: readonly BoundArgument[],
): TensorId[] | undefined {
  const ids: TensorId[] = [];
  for (const a of args) {
    const items: readonly Value[] = a.value.kind === 'list' ? a.value.items : [a.value];
    const all =
      a.value.kind === 'results' ? a.value.ids.map((id): Value => ({ kind: 'tensor', id })) : items;
    for (const value of all) {
      const id = oneTensor(host, site, p, { value, range: a.range });
      if (id === undefined) return undefined;
      ids.push(id);
    }
  }
  if (ids.length > 0) return ids;
  const range = args[0]?.range ?? site.range;
  host.report(error('MISSING_ARGUMENT', `${p.name} of ${site.callee} is an empty list.`, range));
  return undefined;
}

type Converted = { readonly arg: FuseArg } | { readonly fault: string };

/** The value as an argument of the parameter's kind. */
function convert(p: FuseParam, v: Value): Converted {
  switch (p.kind) {
    case 'int':
      return whole(v) ?? { fault: 'a whole number' };
    case 'float':
      return v.kind === 'number' ? { arg: v.value } : { fault: 'a number' };
    case 'bool':
      if (v.kind === 'bool') return { arg: v.value };
      if (v.kind === 'number' && (v.value === 0 || v.value === 1)) return { arg: v.value === 1 };
      return { fault: 'true or false' };
    case 'str':
      if (v.kind === 'string') return { arg: v.value };
      return v.kind === 'dtype' ? { arg: v.dtype } : { fault: 'a string' };
    case 'dtype': {
      if (v.kind === 'dtype') return { arg: v.dtype };
      const t = v.kind === 'string' ? dtypeOf(v.value) : undefined;
      return t ? { arg: t } : { fault: 'an element type, such as f32' };
    }
    case 'ints':
      return intsOf(v);
    case 'size': {
      const d = asDim(v);
      return d ? { arg: d } : { fault: 'a size' };
    }
    case 'sizes': {
      const items = v.kind === 'list' ? v.items : [v];
      const dims: Dim[] = [];
      for (const i of items) {
        const d = asDim(i);
        if (!d) return { fault: 'a list of sizes' };
        dims.push(d);
      }
      return { arg: dims };
    }
    case 'tensor':
    case 'tensors':
      return { fault: 'a tensor' };
  }
}

function whole(v: Value): { readonly arg: number } | undefined {
  return v.kind === 'number' && Number.isSafeInteger(v.value) ? { arg: v.value } : undefined;
}

/** A whole number, or a list of them; it stays what it was, since forms tell 3 from [3, 3]. */
function intsOf(v: Value): Converted {
  const one = whole(v);
  if (one) return one;
  const fault = { fault: 'a whole number or a list of them' };
  if (v.kind !== 'list') return fault;
  const numbers: number[] = [];
  for (const i of v.items) {
    const n = whole(i);
    if (!n) return fault;
    numbers.push(n.arg);
  }
  return { arg: numbers };
}

function plainAttrs(bound: Readonly<Record<string, FuseArg>>): Attrs {
  const attrs: Record<string, AttrValue> = {};
  for (const [name, arg] of Object.entries(bound)) {
    const v = plainAttr(arg);
    if (v !== undefined) attrs[name] = v;
  }
  return attrs;
}

function plainAttr(arg: FuseArg): AttrValue | undefined {
  if (typeof arg !== 'object') return arg;
  if (!isList(arg)) return constOf(arg) ?? { dims: [arg] };
  const numbers: number[] = [];
  for (const d of arg) {
    const n = typeof d === 'number' ? d : constOf(d);
    if (n === undefined) return { dims: arg.map(ix) };
    numbers.push(n);
  }
  return numbers;
}
