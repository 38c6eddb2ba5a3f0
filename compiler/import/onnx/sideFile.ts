/**
 * Directives for a format that has no place for them: `<file>.fusion.json` beside the model.
 *
 *     { "version": 1, "directives": [
 *       { "kind": "nofuse", "from": "n3.0", "to": "n4.0", "hashes": { "n3.0": "9c0f…" } },
 *       { "kind": "fuse", "values": ["n3.0", "n4.0"] },
 *       { "kind": "materialize", "value": "n3.0" },
 *       { "kind": "recompute", "value": "n3.0" },
 *       { "kind": "schedule", "value": "n9.0", "params": { "workgroup": 128 } },
 *       { "kind": "expect", "expectation": { "kind": "kernels", "relation": "<=", "count": 3 } },
 *       { "kind": "expect", "expectation": { "kind": "bytes", "relation": "<", "bytes": 1048576 } },
 *       { "kind": "expect", "expectation": { "kind": "fused", "values": ["n3.0", "n4.0"] } },
 *       { "kind": "expect", "expectation": { "kind": "pattern", "value": "n4.0", "pattern": "epilogue" } }
 *     ] }
 *
 * A value is named by its id; a node's id stands for its first result. `hashes` is optional and holds
 * the {@link structuralHash} of values as they were when the directive was written. Where the hash
 * no longer fits the id, the value that has this hash is taken if there is exactly one (the model was
 * exported again and its nodes moved). Else the directive is an *orphan*: reported, and not applied.
 */
import { type Diagnostic, error, info, warning } from '../../diagnostics';
import { PATTERNS } from '../../fusion/verdicts';
import type {
  AttrValue,
  Directive,
  Expectation,
  Graph,
  Node,
  Relation,
  TensorId,
} from '../../graph/graph';

/** Why a directive is not used; an orphan was right once. */
type Problem = { readonly problem: string; readonly orphan: boolean };
type Json = unknown;
type Fields = Readonly<Record<string, Json>>;

const RELATIONS: readonly Relation[] = ['<=', '<', '==', '>=', '>', '!='];

export function readSideFile(text: string, graph: Graph, diagnostics: Diagnostic[]): Directive[] {
  const fault = (message: string): Directive[] => {
    diagnostics.push(error('SIDE_FILE', `the side file ${message}`));
    return [];
  };
  let root: Json;
  try {
    root = JSON.parse(text);
  } catch (e) {
    return fault(`is no JSON: ${e instanceof Error ? e.message : String(e)}`);
  }
  const file = fieldsOf(root);
  if (!file) return fault('must be an object with "version" and "directives"');
  if (file['version'] !== 1)
    return fault(`has version ${JSON.stringify(file['version'])}; this program reads version 1`);
  const list: Json = file['directives'];
  if (!Array.isArray(list)) return fault('must have a list named "directives"');
  const reader = new Reader(graph, diagnostics);
  const out: Directive[] = [];
  (list as readonly Json[]).forEach((item, i) => {
    const r = reader.directive(item);
    if (!('problem' in r)) out.push(r);
    else if (r.orphan)
      diagnostics.push(
        warning(
          'ORPHANED_DIRECTIVE',
          `directive ${i + 1} of the side file is not applied: ${r.problem}`,
        ),
      );
    else diagnostics.push(error('SIDE_FILE', `directive ${i + 1} of the side file: ${r.problem}`));
  });
  return out;
}

class Reader {
  private readonly producer = new Map<TensorId, Node>();
  private byHash: Map<string, TensorId[]> | undefined;

  constructor(
    private readonly graph: Graph,
    private readonly diagnostics: Diagnostic[],
  ) {
    for (const n of graph.nodes) for (const r of n.results) this.producer.set(r, n);
  }

  directive(item: Json): Directive | Problem {
    const d = fieldsOf(item);
    if (!d) return wrong('it must be an object');
    const hashes = fieldsOf(d['hashes']) ?? {};
    const value = (name: string): TensorId | Problem => this.value(d[name], name, hashes);
    switch (d['kind']) {
      case 'nofuse': {
        const from = value('from');
        const to = value('to');
        if (typeof from !== 'string') return from;
        if (typeof to !== 'string') return to;
        return {
          kind: 'nofuse',
          from,
          to,
          text: `nofuse ${this.label(from)} -> ${this.label(to)}`,
        };
      }
      case 'fuse': {
        const values = this.values(d['values'], hashes);
        if ('problem' in values) return values;
        return { kind: 'fuse', values, text: `fuse ${this.labels(values)}` };
      }
      case 'materialize':
      case 'recompute': {
        const v = value('value');
        if (typeof v !== 'string') return v;
        return { kind: d['kind'], value: v, text: `${d['kind']} ${this.label(v)}` };
      }
      case 'schedule': {
        const v = value('value');
        if (typeof v !== 'string') return v;
        const params = scheduleParams(d['params']);
        if (!params) return wrong('"params" must be an object of numbers and strings');
        const shown = Object.entries(params).map(([k, p]) => `${k} = ${p}`);
        return {
          kind: 'schedule',
          value: v,
          params,
          text: `schedule ${this.label(v)} { ${shown.join(', ')} }`,
        };
      }
      case 'expect':
        return this.expect(fieldsOf(d['expectation']), hashes);
      default:
        return wrong(
          `there is no kind ${JSON.stringify(d['kind'])}: it is one of nofuse, fuse, materialize, recompute, schedule, expect`,
        );
    }
  }

  private expect(e: Fields | undefined, hashes: Fields): Directive | Problem {
    if (!e) return wrong('"expectation" must be an object');
    const make = (expectation: Expectation, text: string): Directive => ({
      kind: 'expect',
      expectation,
      text: `expect ${text}`,
    });
    const relation = RELATIONS.find((r) => r === e['relation']);
    switch (e['kind']) {
      case 'kernels':
      case 'bytes': {
        const field = e['kind'] === 'kernels' ? 'count' : 'bytes';
        const n = e[field];
        if (!relation || typeof n !== 'number' || !Number.isFinite(n))
          return wrong(`it needs a "relation" (${RELATIONS.join(' ')}) and a number "${field}"`);
        return make(
          e['kind'] === 'kernels'
            ? { kind: 'kernels', relation, count: n }
            : { kind: 'bytes', relation, bytes: n },
          `${e['kind']} ${relation} ${n}`,
        );
      }
      case 'fused': {
        const values = this.values(e['values'], hashes);
        if ('problem' in values) return values;
        return make({ kind: 'fused', values }, `fused ${this.labels(values)}`);
      }
      case 'pattern': {
        const v = this.value(e['value'], 'value', hashes);
        if (typeof v !== 'string') return v;
        const pattern = e['pattern'];
        if (typeof pattern !== 'string' || !PATTERNS.includes(pattern))
          return wrong(`"pattern" must be one of ${PATTERNS.join(', ')}`);
        return make(
          { kind: 'pattern', value: v, pattern },
          `pattern ${this.label(v)} == ${pattern}`,
        );
      }
      default:
        return wrong(
          `there is no expectation ${JSON.stringify(e['kind'])}: it is one of kernels, bytes, fused, pattern`,
        );
    }
  }

  private values(list: Json, hashes: Fields): readonly TensorId[] | Problem {
    if (!Array.isArray(list) || list.length < 2) return wrong('"values" must list two or more ids');
    const out: TensorId[] = [];
    for (const item of list as readonly Json[]) {
      const v = this.value(item, 'values', hashes);
      if (typeof v !== 'string') return v;
      out.push(v);
    }
    return out;
  }

  private value(id: Json, field: string, hashes: Fields): TensorId | Problem {
    if (typeof id !== 'string') return wrong(`"${field}" must be the id of a value`);
    const node = this.graph.nodes.find((n) => n.id === id);
    const direct = node?.results[0] ?? (this.graph.tensors.has(id) ? id : undefined);
    const hash = hashes[id];
    if (typeof hash !== 'string')
      return direct ?? { problem: `there is no value ${JSON.stringify(id)}`, orphan: true };
    if (direct !== undefined && this.hash(direct) === hash) return direct;
    const moved = this.hashIndex().get(hash) ?? [];
    const only = moved[0];
    if (moved.length === 1 && only !== undefined) {
      this.diagnostics.push(
        info('MOVED_DIRECTIVE', `the value ${id} of the side file is now ${only}`, undefined, {
          subject: only,
        }),
      );
      return only;
    }
    const why =
      direct === undefined ? 'is gone' : 'is another one than when the directive was written';
    return {
      problem: `the value ${JSON.stringify(id)} ${why}, and ${moved.length} others have its structure`,
      orphan: true,
    };
  }

  private hash(id: TensorId): string {
    return hashOf(this.producer.get(id), id, this.graph, this.producer);
  }

  private hashIndex(): ReadonlyMap<string, readonly TensorId[]> {
    if (!this.byHash) {
      this.byHash = new Map();
      for (const n of this.graph.nodes)
        for (const r of n.results) {
          const h = this.hash(r);
          const list = this.byHash.get(h);
          if (list) list.push(r);
          else this.byHash.set(h, [r]);
        }
    }
    return this.byHash;
  }

  private label(id: TensorId): string {
    return this.graph.tensors.get(id)?.name ?? id;
  }

  private labels(ids: readonly TensorId[]): string {
    return ids.map((v) => this.label(v)).join(', ');
  }
}

/**
 * What a value is made by: op, attributes and operands, these by their own op or, for inputs and
 * parameters, by name. Positions in the file don't matter; eight hexadecimal digits.
 */
export function structuralHash(graph: Graph, id: TensorId): string {
  const producer = new Map<TensorId, Node>();
  for (const n of graph.nodes) for (const r of n.results) producer.set(r, n);
  return hashOf(producer.get(id), id, graph, producer);
}

function hashOf(
  node: Node | undefined,
  id: TensorId,
  graph: Graph,
  producer: ReadonlyMap<TensorId, Node>,
): string {
  if (!node) return fnv(`leaf ${graph.tensors.get(id)?.name ?? ''}`);
  const attrs = Object.entries(node.attrs)
    .map(([k, v]) => `${k}=${attrText(v)}`)
    .sort();
  const operands = node.operands.map((o) => {
    if (o === undefined) return '';
    const p = producer.get(o);
    return p ? `${p.sourceOp}.${p.results.indexOf(o)}` : `'${graph.tensors.get(o)?.name ?? ''}'`;
  });
  const name = graph.tensors.get(id)?.name ?? '';
  return fnv(
    [node.sourceOp, ...attrs, ...operands, String(node.results.indexOf(id)), name].join('\n'),
  );
}

function attrText(v: AttrValue | undefined): string {
  if (typeof v !== 'object') return String(v);
  if ('tensor' in v) return v.tensor.type.dtype;
  return 'dims' in v ? v.dims.map((d) => d.key).join(',') : v.join(',');
}

/** 32-bit FNV-1a over UTF-16 units. */
function fnv(text: string): string {
  let h = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 0x01000193);
  return (h >>> 0).toString(16).padStart(8, '0');
}

function wrong(problem: string): Problem {
  return { problem, orphan: false };
}

function fieldsOf(v: Json): Fields | undefined {
  return typeof v === 'object' && v !== null && !Array.isArray(v) ? (v as Fields) : undefined;
}

function scheduleParams(v: Json): Readonly<Record<string, number | string>> | undefined {
  const fields = fieldsOf(v);
  if (!fields) return undefined;
  const out: [string, number | string][] = [];
  for (const [k, p] of Object.entries(fields)) {
    if (typeof p !== 'number' && typeof p !== 'string') return undefined;
    out.push([k, p]);
  }
  return Object.fromEntries(out);
}
