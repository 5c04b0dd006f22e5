// What the pages' controls and pictures share.

const element = (id) => document.getElementById(id);

// Positions of a slider: 1 to 15, then eight sizes per octave: 16, 18, 20, ..., up to 2^30.
const STEPS = Array.from({length: 231}, (_, i) => (i < 15 ? i + 1 : (8 + (i - 15) % 8) * 2 ** (1 + Math.trunc((i - 15) / 8))));
const stepOf = (value) => STEPS.findLastIndex((step) => step <= value);

// Shows the tip of the dot that the pointer or the Tab key is on. Elsewhere `textAt(x, width)` has the text, if any.
function addTips(svg, area, tip, textAt = () => undefined) {
  const show = (text, x, y) => {
    const box = area.getBoundingClientRect();
    tip.textContent = text ?? '';
    tip.hidden = text === undefined;
    tip.style.left = `${Math.max(0, Math.min(x - box.left + 14, box.width - tip.offsetWidth - 2))}px`;
    tip.style.top = `${y - box.top + 16}px`;
  };
  const hide = () => { tip.hidden = true; };
  svg.addEventListener('pointermove', ({target, clientX, clientY}) => {
    const box = svg.getBoundingClientRect(), other = textAt(clientX - box.left, box.width);
    show(target.closest('.dot')?.dataset.tip ?? other, clientX, clientY);
  });
  svg.addEventListener('focusin', ({target}) => {
    const dot = target.closest('.dot'), box = target.getBoundingClientRect();
    if (dot) show(dot.dataset.tip, box.right, box.bottom);
  });
  for (const event of ['pointerleave', 'focusout']) svg.addEventListener(event, hide);
  addEventListener('keydown', (event) => event.key === 'Escape' && hide());
}
