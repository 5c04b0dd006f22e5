// node evaluate_model.mjs FOLDER POINTS.json: answers queries with the scripts of a model's page (in FOLDER) and compares
// with what the program computed (src/ridge/report/page/model_page_test.cc): chips, limiters, limits and sentences must
// be equal, other numbers agree to 1e-9, because they are summed in another order. Prints the number of points and
// values compared; exits with 1 if one differs.
import fs from 'node:fs';
import path from 'node:path';
import vm from 'node:vm';

const [folder, file] = process.argv.slice(2);
const page = vm.createContext({console});
for (const name of ['program', 'numbers', 'model_steps', 'model_sentences', 'model_served'])
  vm.runInContext(fs.readFileSync(path.join(folder, `${name}.js`), 'utf8'), page, {filename: `${name}.js`});

let values = 0, points = 0;
const errors = [];

function same(where, got, reference) {
  values += 1;
  const isClose = typeof reference === 'number' && Math.abs(got - reference) <= 1e-9 * Math.abs(reference);
  if (got !== reference && !isClose) errors.push(`${where}: expected ${reference}, found ${got}`);
}

function compareStep(where, got, reference) {
  for (const key of ['flops', 'bytes', 'bound', 'network', 'parameters', 'cache', 'activations', 'missing'])
    same(`${where} ${key}`, got[key], reference[key]);
  same(`${where} modules`, got.modules.length, reference.modules.length);
  reference.modules.forEach((module, i) => {
    for (const [key, expected] of Object.entries(module)) same(`${where} ${module.part}, ${module.name}: ${key}`, got.modules[i]?.[key], expected);
  });
}

const plain = (text) => text.replace(/[\u00a0\u202f]/g, ' ').replace(/ +/g, ' ');

for (const {data, queries} of JSON.parse(fs.readFileSync(file, 'utf8'))) {
  const model = page.parseModel(data);
  for (const {query, expected} of queries) {
    const where = `${data.name} ${JSON.stringify(query)}`, machine = data.machines.find((m) => m.name === query.machine);
    const answer = page.answerModel(model, {...query, machine});
    points += 1;
    same(`${where} error`, answer.error, '');
    if (answer.error) continue;
    for (const key of ['maxBatch', 'maxContext', 'fits']) same(`${where} ${key}`, answer[key], expected[key]);
    same(`${where} chips`, answer.query.chips, expected.chips);
    for (const kind of ['images', 'audio']) {
      same(`${where} has ${kind}`, answer[kind] === null, expected[kind] === null);
      for (const [key, value] of Object.entries(expected[kind] ?? {})) same(`${where} ${key} of ${kind}`, answer[kind]?.[key], value);
    }
    compareStep(`${where} decode`, answer.decode, expected.decode);
    compareStep(`${where} prefill`, answer.prefill, expected.prefill);
    const sentences = page.modelSentences(model, answer).map(plain);
    same(`${where} sentences`, sentences.length, expected.sentences.length);
    expected.sentences.forEach((sentence, i) => same(`${where} sentence ${i}`, sentences[i], plain(sentence)));
    for (const sentence of [...page.lackingSentences(answer.query), ...page.caveatSentences(model, answer)])
      same(`${where}: '${sentence}' is in the text`, expected.text.includes(sentence), true);
  }
}
for (const error of errors.slice(0, 20)) console.log(error);
if (errors.length > 20) console.log(`and ${errors.length - 20} more`);
console.log(`${points} points, ${values} values, ${errors.length} differ`);
process.exit(errors.length === 0 && points > 0 ? 0 : 1);
