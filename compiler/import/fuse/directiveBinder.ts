/**
 * Outputs and directives: what speaks about names, bound when all names of the file are known.
 */
import { error, warning, type SourceRange } from '../../diagnostics';
import type { Directive, Expectation, Graph, Node, TensorId } from '../../graph/graph';
import type { ExpectSyntax, Named, Setting, Statement } from './ast';
import type { Binder, Definition } from './binder';
import { replaceFix } from './suggest';

type Output = Graph['outputs'][number];

export class DirectiveBinder {
  readonly outputs: Output[] = [];
  readonly directives: Directive[] = [];
  private readonly outputNames = new Set<string>();
  /** Nodes by the name of the statement that they stand in. */
  private nodesOf: Map<string, Node[]> | undefined;

  constructor(private readonly binder: Binder) {}

  bind(s: Statement): void {
    const place = { range: s.range, text: oneLine(s.text) };
    switch (s.kind) {
      case 'output':
        for (const name of s.names) this.bindOutput(name);
        break;
      case 'expect': {
        const expectation = s.expectation && this.bindExpectation(s.expectation);
        if (expectation) this.directives.push({ kind: 'expect', expectation, ...place });
        break;
      }
      case 'materialize':
      case 'recompute':
        for (const name of s.values) {
          const value = this.tensor(name);
          if (value === undefined) continue;
          if (this.binder.graph.tensors.get(value)?.role !== 'result') {
            this.binder.report(
              warning(
                'NO_EFFECT',
                `${name.name} isn’t computed, so there is nothing to ${s.kind}.`,
                name.range,
              ),
            );
          } else this.directives.push({ kind: s.kind, value, ...place });
        }
        break;
      case 'fuse': {
        const values = this.results(s.values, 'fuse');
        if (values) this.directives.push({ kind: 'fuse', values, ...place });
        break;
      }
      case 'nofuse':
        this.bindNofuse(s.from, s.to, place);
        break;
      case 'schedule': {
        const value = this.results([s.value], 'schedule')?.[0];
        const params = this.bindSettings(s.settings);
        if (value !== undefined)
          this.directives.push({ kind: 'schedule', value, params, ...place });
        break;
      }
      case 'dim':
      case 'input':
      case 'param':
      case 'const':
      case 'assign':
      case 'faulty':
        break;
    }
  }

  private definition(name: Named): Definition | undefined {
    const d = this.binder.definitions.get(name.name);
    if (d) return d;
    const meant = this.binder.suggest(name.name, (x) => x.kind !== 'dim');
    this.binder.report(
      error(
        'UNKNOWN_NAME',
        `Nothing defines ${name.name}.${meant === undefined ? '' : ` Did you mean ${meant}?`}`,
        name.range,
        replaceFix(name.range, meant),
      ),
    );
    return undefined;
  }

  /** The tensor of a name; a fault when there is none. Faulty values were reported where they are defined. */
  private tensor(name: Named): TensorId | undefined {
    const d = this.definition(name);
    if (!d || d.value.kind === 'faulty') return undefined;
    const id = this.binder.tensor(d.value, d.name.range);
    if (id === undefined) {
      this.binder.report(
        error('WRONG_KIND', `${name.name} is a ${d.kind}, no tensor.`, name.range),
      );
    }
    return id;
  }

  private bindOutput(name: Named): void {
    const d = this.definition(name);
    if (d) d.used = true;
    if (this.outputNames.has(name.name)) {
      this.binder.report(
        warning('DUPLICATE_OUTPUT', `${name.name} is already an output.`, name.range),
      );
      return;
    }
    this.outputNames.add(name.name);
    const tensor = d && this.tensor(name);
    if (tensor !== undefined) this.outputs.push({ name: name.name, tensor, range: name.range });
  }

  /** Tensors that must be computed by ops. */
  private results(names: readonly Named[], what: string): TensorId[] | undefined {
    const ids: TensorId[] = [];
    let ok = true;
    for (const name of names) {
      const id = this.tensor(name);
      if (id === undefined) ok = false;
      else if (this.binder.graph.tensors.get(id)?.role === 'result') ids.push(id);
      else {
        ok = false;
        const message = `${name.name} isn’t computed by an op, so ${what} can’t be asked of it.`;
        this.binder.report(error('NOT_COMPUTED', message, name.range));
      }
    }
    return ok ? ids : undefined;
  }

  /** The edge ends at the op of `to`'s statement that reads `from`: of nested calls maybe an inner one. */
  private bindNofuse(from: Named, to: Named, place: { range: SourceRange; text: string }): void {
    const a = this.tensor(from);
    const b = this.results([to], 'nofuse')?.[0];
    if (a === undefined || b === undefined) return;
    if (this.binder.graph.tensors.get(a)?.role !== 'result') {
      const message = `${from.name} isn’t computed: it is in memory anyway, so there is no edge to cut.`;
      this.binder.report(warning('NO_EFFECT', message, from.range));
      return;
    }
    const readers = (this.statementNodes().get(to.name) ?? []).filter((n) =>
      n.operands.includes(a),
    );
    if (readers.length === 0) {
      this.binder.report(
        warning(
          'NO_EDGE',
          `${to.name} doesn’t read ${from.name} directly, so there is no edge to cut.`,
          place.range,
        ),
      );
      return;
    }
    for (const n of readers) {
      const result = n.results.includes(b) ? b : n.results[0];
      if (result !== undefined)
        this.directives.push({ kind: 'nofuse', from: a, to: result, ...place });
    }
  }

  private statementNodes(): Map<string, Node[]> {
    if (this.nodesOf) return this.nodesOf;
    const byStatement = new Map<string, Node[]>();
    for (const n of this.binder.graph.nodes) {
      const name = n.id.slice(0, n.id.indexOf('#'));
      const list = byStatement.get(name);
      if (list) list.push(n);
      else byStatement.set(name, [n]);
    }
    // Of several names before one `=`, each stands for the whole statement.
    for (const n of this.binder.graph.nodes) {
      for (const r of n.results) {
        if (!r.includes('/') && !byStatement.has(r)) {
          byStatement.set(r, byStatement.get(n.id.slice(0, n.id.indexOf('#'))) ?? []);
        }
      }
    }
    this.nodesOf = byStatement;
    return byStatement;
  }

  private bindExpectation(e: ExpectSyntax): Expectation | undefined {
    switch (e.kind) {
      case 'kernels':
      case 'bytes':
        return e;
      case 'fused': {
        const values = this.results(e.values, 'expect fused');
        return values && { kind: 'fused', values };
      }
      case 'pattern': {
        const value = this.results([e.value], 'expect pattern')?.[0];
        return value === undefined
          ? undefined
          : { kind: 'pattern', value, pattern: e.pattern.name };
      }
    }
  }

  private bindSettings(settings: readonly Setting[]): Record<string, number | string> {
    const entries = new Map<string, number | string>();
    for (const { key, value } of settings) {
      const v = this.settingValue(value);
      if (entries.has(key.name)) {
        this.binder.report(
          warning('DUPLICATE_SETTING', `${key.name} is set twice; the last counts.`, key.range),
        );
      }
      if (v === undefined) {
        if (value.kind !== 'faulty') {
          this.binder.report(
            error('WRONG_KIND', `${key.name} must be a number or a word.`, value.range),
          );
        }
      } else entries.set(key.name, v);
    }
    return Object.fromEntries(entries);
  }

  private settingValue(e: Setting['value']): number | string | undefined {
    switch (e.kind) {
      case 'number':
        return e.value;
      case 'string':
        return e.value;
      case 'bool':
        return String(e.value);
      case 'name': {
        const d = this.binder.definitions.get(e.name);
        if (d?.value.kind !== 'number') return e.name;
        d.used = true;
        return d.value.value;
      }
      default:
        return undefined;
    }
  }
}

/** The statement's text on one line, for lists of expectations. */
function oneLine(text: string): string {
  if (!/[\n\r]/.test(text)) return text.length > 400 ? `${text.slice(0, 400)}…` : text;
  return oneLine(
    text
      .replaceAll(/#[^\n\r]*/g, '')
      .replaceAll(/\s+/g, ' ')
      .trim(),
  );
}
