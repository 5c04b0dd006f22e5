// The sentences of the command line about a model on a machine (report/model_machine.cc), at the bound.

const rateText = (perSecond) => (perSecond < 999.5 ? significant(perSecond, 3) : grouped(Math.round(perSecond)));
const countText = (count, what) => `${grouped(count)} ${what}${count === 1 ? '' : 's'}`;
const bytesText = (bytes) => engineering(bytes, 'B');
function chipsText({chips, machine}) {
  const hosts = Math.ceil(chips / (machine.host_chips ?? chips));
  return chips === 1 ? machine.name : `${chips} x ${machine.name}${hosts > 1 ? ` (${grouped(hosts)} hosts)` : ''}`;
}

function phaseSentence({query: {phase, batch, context}, step, sequences, tokens}) {
  const time = `${seconds(step.bound)} at least`, rate = rateText(tokens / step.bound);
  if (phase === 'prefill') return `prefill of ${countText(sequences, 'sequence')} of ${countText(context, 'token')} takes ${time}: ${rate} tokens/s`;
  const each = batch === 1 ? '' : `, ${rateText(1 / step.bound)} a sequence`;
  return `a token of ${batch === 1 ? '' : 'each of '}${countText(batch, 'sequence')} takes ${time}: ${rate} tokens/s${each}`;
}

const firstTokenBound = ({prefill, images, audio}) => prefill.bound + (images?.bound ?? 0) + (audio?.bound ?? 0);

function firstTokenSentence(answer) {
  const {query, prefill, images} = answer;
  if (prefill.error) return `no time to the first token: ${prefill.error}`;
  const shown = images ? `, with ${countText(query.images, 'image')}` : '';
  return `first token after ${seconds(firstTokenBound(answer))} at least (${countText(query.context, 'token')} of one sequence${shown})`;
}

function imageSentences({images: {size, patches, tokens}}, {count, bound, flops}) {
  const each = `${patches === 1 ? '1 patch' : `${grouped(patches)} patches`} and ${countText(tokens, 'token')} each`;
  return [`images on one chip, ${countText(count, 'image')} of ${size} x ${size} pixels ${count === 1 ? 'takes' : 'take'} ${seconds(bound)} at least: ${engineering(flops, 'FLOP')}; ${each}`];
}

function memorySentence({query: {batch, context}, step, capacity, fits, maxBatch, maxContext}) {
  let out = `memory ${bytesText(step.memory)} a chip: weights ${bytesText(step.parameters + step.scales)}, cache ${bytesText(step.cache)}, activations ${bytesText(step.activations)}`;
  if (capacity !== null) out += `; ${fits ? 'fits' : 'DOES NOT FIT'} in ${bytesText(capacity)}`;
  if (capacity !== null && fits && step.memory > 0.9 * capacity) out += ' with less than 10 % left for prefill and the engine';
  if (maxBatch === null) return out;
  out += `; decoding holds ${maxBatch > 0 ? `up to ${countText(maxBatch, 'sequence')}` : 'no sequence'}`;
  if (maxContext === null) return out;
  const joinedBy = maxContext === 0 ? 'and not' : maxBatch > 0 ? 'or' : 'but';
  return `${out} of ${countText(context, 'token')}, ${joinedBy} ${countText(batch, 'sequence')} of ${countText(Math.max(maxContext, 1), 'token')}`;
}

function boundSentence({step}) {
  const shares = Object.entries(divideBound(step)).sort((a, b) => b[1] - a[1]).filter(([, time]) => time >= 0.0005 * step.bound);
  return `bound ${shares.map(([name, time]) => `${name} ${percent(time / step.bound)}`).join(', ')}`;
}

// Returns the times that a machine's file lacks, so that they count as 0.
const lackingTimes = ({machine, chips}) => machine.not_on_record[chips > 1 ? 1 : 0];
const tooLow = '\u2020';  // Mark of a time that is too low, or of a rate that is too high, because times are lacking
const markTooLow = (shown, query) => (lackingTimes(query).length > 0 ? `${shown}\u2009${tooLow}` : shown);

// Returns the sentence about lacking times, if any.
function lackingSentences(query) {
  const lacking = lackingTimes(query), several = lacking.length > 1;
  if (lacking.length === 0) return [];
  return [`${query.machine.name}: ${lacking.join(' and ')} ${several ? 'are' : 'is'} not on record and count${several ? '' : 's'} as 0, so its times are too low`];
}

function caveatSentences(model, {query: {context}, step, notes}) {
  const out = [];
  if (step.missing) out.push(`without ${step.missing}`);
  if (model.max_positions > 0 && context > model.max_positions)
    out.push(`the context of ${context} tokens is longer than max_position_embeddings = ${model.max_positions}`);
  return [...out, ...notes];
}

const audioSentences = ({audio: {frames, vectors}}, {count, bound, flops}) => [
  `audio on one chip, ${countText(count, 'clip')} ${count === 1 ? 'takes' : 'take'} ${seconds(bound)} at least: ${engineering(flops, 'FLOP')}; ${countText(frames, 'frame')} become ${countText(vectors, 'vector')}`];

// Returns the sentences about an answer: the answer itself first.
function modelSentences(model, answer) {
  const small = answer.fits === false ? ', whose memory is too small' : '';
  const out = [`${model.name} on ${chipsText(answer.query)}${small}: ${phaseSentence(answer)}`];
  if (answer.query.phase === 'decode') out.push(firstTokenSentence(answer));
  return [...out, ...(answer.images ? imageSentences(model, answer.images) : []), ...(answer.audio ? audioSentences(model, answer.audio) : []), ...servedSentences(model, answer), memorySentence(answer), boundSentence(answer)];
}
