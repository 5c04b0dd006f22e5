// A headless Chromium, driven through its DevTools protocol over a pipe: no package is needed.
import {spawn} from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';

export function found(names) {
  for (const name of names)
    for (const folder of (process.env.PATH ?? '').split(':'))
      if (fs.existsSync(path.join(folder, name))) return path.join(folder, name);
  return null;
}

export const chromium = () => process.env.RIDGE_CHROMIUM ?? found(['chromium', 'chromium-browser', 'google-chrome']);

export class Browser {
  static async open(program) {
    const out = new Browser();
    out.folder = fs.mkdtempSync(path.join(os.tmpdir(), 'ridge_page_'));
    out.child = spawn(program, ['--headless=new', '--no-sandbox', '--disable-gpu', '--remote-debugging-pipe',
      '--no-first-run', '--hide-scrollbars', `--user-data-dir=${out.folder}`, 'about:blank'],
    {stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe']});
    out.calls = new Map();
    out.events = [];
    out.next = 1;
    let text = '';
    out.child.stdio[4].on('data', (part) => {
      text += part;
      for (let end = text.indexOf('\0'); end >= 0; end = text.indexOf('\0')) {
        out.received(JSON.parse(text.slice(0, end)));
        text = text.slice(end + 1);
      }
    });
    const {targetInfos} = await out.call('Target.getTargets');
    const {targetId} = targetInfos.find((t) => t.type === 'page');
    out.session = (await out.call('Target.attachToTarget', {targetId, flatten: true})).sessionId;
    for (const domain of ['Page', 'Runtime', 'Network', 'Log']) await out.call(`${domain}.enable`);
    return out;
  }

  received(message) {
    const call = this.calls.get(message.id);
    if (!call) {
      this.events.push(message);
      return;
    }
    this.calls.delete(message.id);
    if (message.error) call.fail(new Error(message.error.message));
    else call.done(message.result);
  }

  call(method, params = {}) {
    const id = this.next++;
    this.child.stdio[3].write(`${JSON.stringify({id, method, params, sessionId: this.session})}\0`);
    return new Promise((done, fail) => { this.calls.set(id, {done, fail}); });
  }

  async show(file, {width = 1280, height = 900, dark = false, hash = ''} = {}) {
    await this.call('Emulation.setDeviceMetricsOverride', {width, height, deviceScaleFactor: 1, mobile: false});
    await this.call('Emulation.setEmulatedMedia', {features: [{name: 'prefers-color-scheme', value: dark ? 'dark' : 'light'}]});
    await this.call('Page.navigate', {url: 'about:blank'});
    this.events = [];
    await this.call('Page.navigate', {url: `file://${path.resolve(file)}${hash}`});
    for (let tries = 0; tries < 200; ++tries) {
      if (await this.run("document.readyState === 'complete' && location.protocol === 'file:'")) break;
      await new Promise((done) => { setTimeout(done, 25); });
    }
    await this.settled();
  }

  settled() {
    return this.run('new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))');
  }

  // The value of an expression in the page.
  async run(expression) {
    const {result, exceptionDetails} =
      await this.call('Runtime.evaluate', {expression, awaitPromise: true, returnByValue: true});
    if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
    return result.value;
  }

  async key(key, code = key, text = undefined) {
    const windowsVirtualKeyCode = {Tab: 9, Enter: 13, ArrowRight: 39, ArrowLeft: 37, Escape: 27}[key] ?? 0;
    for (const type of ['keyDown', 'keyUp'])
      await this.call('Input.dispatchKeyEvent', {type, key, code, text: type === 'keyDown' ? text : undefined, windowsVirtualKeyCode});
  }

  async picture(file, whole = true) {
    const {data} = await this.call('Page.captureScreenshot', {format: 'png', captureBeyondViewport: whole});
    fs.writeFileSync(file, Buffer.from(data, 'base64'));
  }

  // What the page asked the network for, and what its console complained of.
  requests() {
    return this.events.filter((e) => e.method === 'Network.requestWillBeSent').map((e) => e.params.request.url)
      .filter((url) => !url.startsWith('file:') && !url.startsWith('about:'));
  }
  complaints() {
    return this.events.flatMap((e) => {
      if (e.method === 'Runtime.exceptionThrown') return [e.params.exceptionDetails.exception?.description ?? 'an exception'];
      return e.method === 'Log.entryAdded' && e.params.entry.level === 'error' ? [e.params.entry.text] : [];
    });
  }

  async close() {
    this.child.kill();
    await new Promise((done) => { this.child.on('exit', done); });
    fs.rmSync(this.folder, {recursive: true, force: true, maxRetries: 5});
  }
}
