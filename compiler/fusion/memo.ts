/**
 * Schedules of groups, each structure scheduled once.
 *
 * A *question* is a set of members and which of their values must be stored. Its answer is that of
 * the first group of the same structure; prices and limits are read off it as they are, and what
 * names values or nodes (bytes by value, verdicts) is translated when somebody asks for it.
 *
 * A structure has no literals in it. Where the scheduler looks at one all the same (it does where
 * reductions might walk along a row together), the structure is marked, and its groups are told apart
 * by their literals.
 */
import type { Compute, Program } from '../ir/compute';
import type { ValueId } from '../ir/expr';
import type { GroupSpec } from '../schedule/group';
import {
  type Schedule,
  type Scheduled,
  scheduleGroup,
  type ScheduleOptions,
  type ScheduleResult,
} from '../schedule/schedule';
import type { Slice, Slices } from '../schedule/slices';
import type { FactMemory } from './facts';
import { Recall } from './memory';
import { Signatures } from './signature';
import type { Verdict } from './verdicts';

export interface Answer {
  /** Of the first group with this structure, in this program or in that of a compilation before: its own names. */
  readonly result: ScheduleResult;
  readonly members: readonly Compute[];
  /** Whether a refusal has all its reasons. */
  readonly thorough: boolean;
  /** Its values' places in its numbering, and its L0 nodes in theirs. */
  readonly places: ReadonlyMap<ValueId, number>;
  readonly origins: readonly string[];
}

/** Stands for the answer of a structure that depends on the numbers in its bodies. */
export const BY_LITERALS = 'by literals';

export class ScheduleMemo {
  readonly signatures: Signatures;
  /** Values that lie in others' buffers: the same group is another question when one of its values is moved. */
  readonly slices = new Map<ValueId, Slice>();
  /** How often a group was scheduled, and how often that was asked for: the search's work. */
  readonly counts = { built: 0, asked: 0 };

  /** Of the structures of finished kernels. */
  get facts(): FactMemory {
    return this.recall.facts;
  }

  constructor(
    private readonly program: Program,
    private readonly options: ScheduleOptions,
    private readonly recall = new Recall(),
  ) {
    this.signatures = new Signatures(program, recall);
  }

  /**
   * `stored` tells of each member, by place, whether its value must be stored. A refusal has all its
   * reasons when the question is `thorough`; else what costs as much as the budget or more may be
   * refused too.
   */
  ask(
    members: readonly number[],
    stored: readonly boolean[],
    thorough: boolean,
    budgetPs = Infinity,
  ): Answer {
    this.counts.asked++;
    const key = this.signatures.key(members, stored, this.slices);
    const known = this.recall.answer(key);
    if (known === BY_LITERALS)
      return this.askWithLiterals(key, members, stored, thorough, budgetPs);
    if (known && suffices(known, thorough, budgetPs)) return known;
    const refused = known?.result.ok === false && known.result.leastPs === undefined;
    const { answer, literals } = this.build(
      members,
      stored,
      thorough && refused,
      thorough,
      budgetPs,
    );
    // Until a number is looked at, all goes alike with any others: all groups of the key come this far.
    if (literals) this.recall.answers.set(key, BY_LITERALS);
    this.recall.answers.set(literals ? this.withLiterals(key, members) : key, answer);
    return answer;
  }

  private askWithLiterals(
    structure: string,
    members: readonly number[],
    stored: readonly boolean[],
    thorough: boolean,
    budgetPs: number,
  ): Answer {
    const key = this.withLiterals(structure, members);
    const known = this.recall.answer(key);
    if (known && known !== BY_LITERALS && suffices(known, thorough, budgetPs)) return known;
    const { answer } = this.build(members, stored, false, thorough, budgetPs);
    this.recall.answers.set(key, answer);
    return answer;
  }

  /** No structure's key is one of these: it starts with a number. */
  private withLiterals(key: string, members: readonly number[]): string {
    return `\uffff\uffff${this.signatures.literalsOf(members)}${key}`;
  }

  private build(
    members: readonly number[],
    stored: readonly boolean[],
    /** Whether all that is asked for is why not. */
    refused: boolean,
    thorough: boolean,
    budgetPs: number,
  ): { readonly answer: Answer; readonly literals: boolean } {
    this.counts.built++;
    const spec = specOf(this.program, members, stored, this.slices);
    // Without reasons first: where none are needed, that is all.
    const quick = refused
      ? undefined
      : scheduleGroup(spec, this.options, true, false, thorough ? Infinity : budgetPs);
    const answer: Answer = {
      result: quick && (quick.ok || !thorough) ? quick : scheduleGroup(spec, this.options),
      members: spec.members,
      thorough,
      places: new Map(this.signatures.valuesOf(members).map((v, i) => [v, i])),
      origins: this.signatures.originsOf(members),
    };
    return { answer, literals: spec.literals.read };
  }

  /** The schedule that the group's own code is built from. */
  own(answer: Answer, spec: GroupSpec): Schedule {
    const { result } = answer;
    if (!result.ok) throw new Error('a kernel that no template can run');
    if (sameList(answer.members, spec.members)) return result.value.schedule;
    const again = scheduleGroup(spec, this.options, true);
    if (!again.ok) throw new Error('a group of a structure that can be scheduled, and it can not');
    return again.value.schedule;
  }

  /** The answer in the names of the group that asked; of its schedule, only what isn't named by values. */
  translate(answer: Answer, members: readonly number[]): ScheduleResult {
    const { result, places } = answer;
    if (this.isOwn(answer, members)) return result;
    if (!result.ok) return { ok: false, verdicts: this.translateVerdicts(answer, members) };
    const to = this.signatures.valuesOf(members);
    const rename = (v: ValueId): ValueId => to[places.get(v) ?? -1] ?? v;
    const { features } = result.value;
    const bytesOf = new Map<ValueId, number>();
    for (const [v, bytes] of features.bytesOf) bytesOf.set(rename(v), bytes);
    const repeated = features.repeated.map((r) => ({ ...r, value: rename(r.value) }));
    const value: Scheduled = { ...result.value, features: { ...features, bytesOf, repeated } };
    return { ok: true, value };
  }

  translateVerdicts(answer: Answer, members: readonly number[]): readonly Verdict[] {
    const { result } = answer;
    if (result.ok) return [];
    if (this.isOwn(answer, members)) return result.verdicts;
    const from = answer.origins;
    const to = this.signatures.originsOf(members);
    const names = new Map<string, string>();
    from.forEach((o, i) => names.set(o, to[i] ?? o));
    return result.verdicts.map((v) => ({ ...v, nodes: v.nodes.map((n) => names.get(n) ?? n) }));
  }

  /** Whether the answer was given for these very members. */
  private isOwn(answer: Answer, members: readonly number[]): boolean {
    return (
      answer.members.length === members.length &&
      members.every((m, i) => this.program.computes[m] === answer.members[i])
    );
  }
}

/** Whether an answer is all that is asked for: a refusal may lack reasons, or be one for its price alone. */
function suffices({ result, thorough }: Answer, wanted: boolean, budgetPs: number): boolean {
  if (result.ok || thorough) return true;
  return !wanted && (result.leastPs === undefined || budgetPs <= result.leastPs);
}

function sameList<T>(a: readonly T[], b: readonly T[]): boolean {
  return a.length === b.length && a.every((x, i) => x === b[i]);
}

export function specOf(
  program: Program,
  members: readonly number[],
  stored: readonly boolean[],
  slices?: Slices,
): GroupSpec {
  const computes = members.map((m) => {
    const c = program.computes[m];
    if (!c) throw new Error(`no compute ${m}`);
    return c;
  });
  return {
    program,
    members: computes,
    outputs: computes.filter((_, i) => stored[i]).map((c) => c.value),
    literals: { read: false },
    ...(slices && slices.size > 0 ? { slices } : {}),
  };
}
