// Served times as plan/model/serving.cc predicts them, from the formulas' bounds and the fitted constants, and the
// predicted kernels of the sizes that the command line had. Both are shown next to the bound, which they do not change.

const JOINING_TOKENS = 2 ** 15;  // Tokens of a step of prefill in which reading the weights takes a small part

// Returns a step's bound without routed experts, and theirs.
function splitBound(step) {
  const experts = sumOf(step.modules.filter((m) => m.name === 'experts').map((m) => m.layers * m.bound));
  return {others: step.bound - experts, experts};
}

const spreadTime = (expected, low, high, bound) => ({low: Math.max(bound, low * expected), expected, high: high * expected});

// Returns the requests that the memory holds at the end of their output, or null if its capacity is not on record.
function countHeld(model, query, tokens) {
  const whole = {...query, context: query.context + tokens}, one = {...whole, batch: 1};
  return findLimits(model, one, evaluateStep(model, one, 'decode', 1)).maxBatch;
}

// Returns {batch, token, first, rate}, or null for a machine on which no engine was measured, for prefill, and for
// requests that the memory does not hold. Served times of prompts with images are not known.
function predictServed(model, {query, prefill}) {
  const {serving} = model, {machine, batch: requests, context, phase, images} = query;
  if (!serving || images > 0 || phase === 'prefill' || prefill.error) return null;
  if (serving.machines && !serving.machines.includes(machine.name)) return null;
  const {constants: c, output_tokens: outputs} = serving, held = countHeld(model, query, outputs);
  const batch = held === null ? requests : Math.min(requests, Math.trunc(c.memory * held));
  if (batch < 1 || (model.learned_positions > 0 && context + outputs > model.learned_positions)) return null;
  const decode = evaluateStep(model, {...query, context: context + Math.trunc((outputs + 1) / 2)}, 'decode', batch), decodeTime = decode.bound - decode.network;
  const several = Math.ceil(JOINING_TOKENS / context), prompts = (count) => splitBound(evaluateStep(model, query, 'prefill', count));
  const [one, some, twice] = [1, several, 2 * several].map(prompts);
  const time = ({others, experts}) => c.prefill * others + c.expert_prefill * experts;
  const joining = time({others: (twice.others - some.others) / several, experts: (twice.experts - some.experts) / several});
  const step = decodeTime + c.layer * serving.layers + c.expert_layer * serving.expert_layers + c.sequence * batch;
  const token = step + (batch - 1) / outputs * joining, waiting = (requests - batch) / batch * outputs * token;
  const first = (serving.engine === 'vllm' ? c.vllm_start : c.start) + time(one) + c.queued * (batch - 1) * joining + c.first_token_steps * token + waiting;
  return {
    batch, token: spreadTime(token, c.token_low, c.token_high, decodeTime),
    first: spreadTime(first, c.first_token_low, c.first_token_high, one.others + one.experts), rate: requests * outputs / (first + outputs * token),
  };
}

const intervalText = ({low, expected, high}) => `${seconds(expected)} (${seconds(low)} to ${seconds(high)})`;

function servedSentences(model, answer) {
  const served = predictServed(model, answer), {serving} = model, {query: {batch}} = answer;
  if (!served) return [];
  const waiting = served.batch === batch ? '' : `; the memory holds ${grouped(served.batch)} of ${grouped(batch)} requests, others wait`;
  const constants = serving.source ? `, constants of ${serving.source}` : '';
  return [`served ${intervalText(served.token)} per token, ${intervalText(served.first)} to the first token, ${rateText(served.rate)} tokens/s of output (${serving.engine}, ${countText(serving.output_tokens, 'token')} each${constants})${waiting}`];
}

// Returns the kernels' predicted times at the sizes of the command line; at others there are none.
function plannedTimes(model, {query}) {
  const planned = model.planned?.[query.machine.name], {asked} = model;
  const isAsked = ['batch', 'context', 'images', 'weights', 'cache'].every((key) => query[key] === asked[key]);
  return planned && isAsked && planned.chips === query.chips ? planned : null;
}

function plannedSentences(model, answer) {
  const planned = plannedTimes(model, answer);
  if (!planned) return [];
  const first = planned.first ? `, ${intervalText(planned.first)} to the first token` : '';
  return [`planned kernels take ${intervalText(planned.token)} per token${first}; at these sizes alone, which the command line had`];
}
