import assert from 'node:assert/strict';
import { commandLink, escapeMarkdown, inlineCode } from '../../../extension/common/markdown';
import { nodeHover, tensorHover } from '../../../extension/features/hoverText';
import { node, profile, result, tensor } from './fixture';

describe('hovers', () => {
  const context = { uri: 'file:///w/graph.fuse', result: result() };
  const relu = context.result.graph.nodes[2];

  it('tell shapes, cost, kernel and every verdict with its counterfactual', () => {
    assert.ok(relu);
    const text = nodeHover(relu, { ...context, profile: profile() });
    for (const part of [
      '`(f32[B, 1024]) → f32[B, 1024]`',
      'operands 256 KiB · results 256 KiB · 1.0 kflop',
      'Kernel **k0**, epilogue: `matmul + add + relu`',
      '41 µs measured (est. 38 µs)',
      'saves 12.0 MiB, 2 launches',
      'Measured on Acme One, devbox: 120 GB/s, 3.00 GFLOP/s',
      '**NEEDS\\_GLOBAL\\_SYNC**',
      'would fuse if a row had at most 256 elements',
      '(proved, adapter\\: maxComputeInvocationsPerWorkgroup)',
      '**MODEL\\_SLOWER**',
      '(command:fusionLens.showGraph?',
    ])
      assert.ok(text.includes(part), `${part} is missing in\n${text}`);
  });

  it('tell a tensor’s type, size and readers, with symbolic sizes bound', () => {
    const x = context.result.graph.tensors[0];
    assert.ok(x);
    assert.equal(
      tensorHover(x, context),
      'input `x: f32[B, 1024]`\n\n65,536 elements, 256 KiB with B = 64\n\nRead by 1 op: matmul',
    );
  });

  it('show names from the file as text, whatever is in them', () => {
    const evil = '](command:workbench.action.quit) <img src=x> `$(gear)` **b**\n# h';
    const bad = node(evil, 'z', ['x'], 7, { attrs: evil });
    const text = nodeHover(bad, { ...context, result: result() });
    const outsideCode = text.replace(/(`+)[\s\S]*?[^`]\1(?!`)/g, 'code');
    const links = [...outsideCode.matchAll(/(?<!\\)\]\(command:([\w.]+)/g)].map(
      (match) => match[1],
    );
    assert.deepEqual(links, ['fusionLens.showGraph']);
    assert.ok(!/^# h/m.test(text));
    assert.ok(!tensorHover(tensor('a`b', { dtype: 'f32' }), context).includes('`a`b'));
  });
});

describe('Markdown', () => {
  it('escapes what would mean something', () => {
    assert.equal(escapeMarkdown('a_b*[c](d) <e>\n&f'), 'a\\_b\\*\\[c\\]\\(d\\) \\<e\\> \\&f');
    assert.equal(inlineCode('a``b'), '``` a``b ```');
  });

  it('encodes arguments of links so that they can’t end the link', () => {
    const link = commandLink('Go', 'fusionLens.showGraph', ["a)b'(c", 1], 'say "hi"');
    assert.equal(link, '[Go](command:fusionLens.showGraph?%5B%22a%29b%27%28c%22%2C1%5D "say hi")');
    const query = /\?(\S+) /.exec(link)?.[1] ?? '';
    assert.deepEqual(JSON.parse(decodeURIComponent(query)), ["a)b'(c", 1]);
  });
});
