/** What the host puts together of changes is the very result that the worker has. */
import assert from 'node:assert/strict';
import { generate } from '../../../bench/graphs';
import { compile, CompileMemory } from '../../../compiler';
import {
  changeOf,
  listOf,
  ResultReceiver,
  ResultSender,
} from '../../../extension/worker/resultChange';
import { random } from '../fusion/fixture';

interface Item {
  readonly id: string;
  readonly place: number;
  readonly list: readonly number[];
  readonly deep: { readonly a: number; readonly b?: string };
  readonly more?: string;
}

function item(id: number, roll: (n: number) => number): Item {
  return {
    id: `i${id}`,
    place: roll(3),
    list: Array.from({ length: roll(3) }, () => roll(2)),
    deep: { a: roll(2), ...(roll(2) > 0 ? { b: 'b' } : {}) },
    ...(roll(3) > 0 ? { more: 'more' } : {}),
  };
}

/** As it arrives in another thread. */
const sent = <T>(x: T): T => structuredClone(x);

describe('Changes of results', () => {
  it('make the list that they were made of, whatever has come, gone, moved or changed', () => {
    for (let seed = 1; seed <= 60; seed++) {
      const roll = random(seed);
      let list = Array.from({ length: roll(12) }, (_, i) => item(i, roll));
      let there: readonly Item[] = sent(list);
      for (let step = 0; step < 12; step++) {
        const next = [...list];
        for (let edits = roll(4); edits > 0; edits--) {
          const at = roll(next.length + 1);
          const old = next[at];
          switch (roll(5)) {
            case 0:
              next.splice(at, 0, item(100 * step + edits, roll));
              break;
            case 1:
              next.splice(at, 1);
              break;
            case 2:
              if (old) next[at] = { ...item(0, roll), id: old.id };
              break;
            case 3:
              // All that follows has another place.
              for (let i = at; i < next.length; i++) {
                const x = next[i];
                if (x) next[i] = { ...x, place: x.place + 1 };
              }
              break;
            case 4:
              if (old) next.push(...next.splice(at, 1));
              break;
          }
        }
        there = listOf(there, sent(changeOf(list, next, (x) => x.id)));
        assert.deepEqual(there, next, `seed ${seed}, step ${step}`);
        list = next;
      }
    }
  });

  it('name runs, and the fields in which they differ', () => {
    const old = Array.from({ length: 100 }, (_, i) => ({ id: `k${i}`, node: `n${i}`, x: [i] }));
    const now = [...old.slice(0, 40), { id: '', node: 'new', x: [] }, ...old.slice(40)].map(
      (k, i) => ({ ...k, id: `k${i}` }),
    );
    const change = changeOf(old, now, (k) => k.node);
    assert.equal(change.length, 3);
    assert.deepEqual(change[0], { from: 0, count: 40 });
    assert.deepEqual(change[1], { items: [{ id: 'k40', node: 'new', x: [] }] });
    const rest = change[2];
    assert.ok(rest && 'from' in rest);
    assert.deepEqual([rest.from, rest.count, Object.keys(rest.fields ?? {})], [40, 60, ['id']]);
    assert.deepEqual(listOf(old, change), now);
  });

  for (const kind of ['transformer', 'convnet', 'heads'] as const)
    it(`carry the results of a ${kind} while it is edited`, () => {
      const roll = random(kind.length);
      const memory = new CompileMemory();
      const sender = new ResultSender();
      const receiver = new ResultReceiver();
      const start = generate(kind, 80).split('\n');
      let lines = start;
      for (let version = 1; version < 14; version++) {
        const bytes = new TextEncoder().encode(lines.join('\n'));
        const { result } = compile({ file: 'a.fuse', bytes }, { version, memory });
        assert.deepEqual(receiver.receive(sent(sender.send(result))), result);
        lines = version % 5 === 4 ? start : [...lines];
        const at = roll(lines.length);
        const edits: readonly (() => void)[] = [
          () => lines.splice(at, 0, '', '# a note'),
          () => lines.splice(at, 1),
          () => (lines[at] = (lines[at] ?? '').replace(/= (.*)$/, '= tanh($1)')),
          () => (lines = lines.map((l) => l.replaceAll(/\bx0\b/g, 'first'))),
        ];
        edits[roll(edits.length)]?.();
      }
    });

  it('are refused where the version before is not here', () => {
    const of = (version: number) =>
      compile(
        { file: 'a.fuse', bytes: new TextEncoder().encode('input x: f32[4]\ny = exp(x)') },
        {
          version,
        },
      ).result;
    const sender = new ResultSender();
    sender.send(of(1));
    const second = sender.send(of(2));
    assert.equal(second.kind, 'change');
    assert.equal(new ResultReceiver().receive(second), undefined);
  });
});
