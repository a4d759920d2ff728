// The figure of the start page: one prompt, n rollouts, m kept by max_variance for rewards of 0 and 1.
(() => {
  "use strict";

  /** How many of the m kept are right, where `right` of n rollouts are (docs/signal.md). */
  const keptRight = (right, n, m) =>
    Math.min(Math.max(Math.floor(m / 2), m - (n - right)), right);

  const spread = (share) => Math.sqrt(share * (1 - share));

  /** The expected spread of the kept rewards, C(p; n, m). */
  const contrast = (p, n, m) => {
    let chance = (1 - p) ** n; // of no right rollout
    let sum = 0;
    for (let right = 0; right <= n; right++) {
      sum += chance * spread(keptRight(right, n, m) / m);
      chance *= ((n - right) / (right + 1)) * (p / (1 - p));
    }
    return sum;
  };

  const html = `
    <div class="dials">
      <label>n, rollouts generated: <output></output><input type="range" data-dial="n" min="4" max="64" step="4" value="32"></label>
      <label>m, rollouts kept: <output></output><input type="range" data-dial="m" min="2" max="32" step="2" value="8"></label>
      <label>pass rate: <output></output><input type="range" data-dial="p" min="2" max="98" step="2" value="16"></label>
    </div>
    <div class="dots" role="img"></div>
    <p class="key">✓ right, ✗ wrong; filled: kept, pale: dropped. <button type="button">Draw again</button></p>
    <p class="says" aria-live="polite"></p>
    <svg viewBox="0 0 420 190" role="img"></svg>
    <p class="key">Contrast is the spread of the kept rewards: 0 teaches nothing, 0.5 is the most there is.
    The curve is its average over many prompts with the same pass rate.</p>`;

  const draw = (root) => {
    root.innerHTML = html;
    const dials = Object.fromEntries(
      [...root.querySelectorAll("input")].map((input) => [input.dataset.dial, input]),
    );
    const numbers = () => Array.from({ length: 64 }, Math.random);
    let luck = [];
    let ties = []; // equal rewards say nothing about which to prefer: drawn at random
    const again = () => { luck = numbers(); ties = numbers(); };

    const show = () => {
      const n = Number(dials.n.value);
      dials.m.max = Math.min(32, n);
      const m = Math.min(Number(dials.m.value), n);
      const p = Number(dials.p.value) / 100;
      const values = { n, m, p: `${Math.round(100 * p)} %` };
      for (const [name, input] of Object.entries(dials)) {
        input.parentElement.querySelector("output").textContent = values[name];
      }

      const isRight = luck.slice(0, n).map((u) => u < p);
      const right = isRight.filter(Boolean).length;
      const kept = keptRight(right, n, m);
      const first = (good, count) => isRight.map((_, i) => i).filter((i) => isRight[i] === good)
        .sort((a, b) => ties[a] - ties[b]).slice(0, count);
      const chosen = new Set([...first(true, kept), ...first(false, m - kept)]);
      const dots = isRight.map((good, i) => {
        const keep = chosen.has(i);
        const dot = document.createElement("span");
        dot.className = `dot ${good ? "right" : "wrong"} ${keep ? "kept" : "dropped"}`;
        dot.textContent = good ? "✓" : "✗";
        return dot;
      });
      const box = root.querySelector(".dots");
      box.replaceChildren(...dots);
      const tally = `${right} of ${n} rollouts are right. Kept: ${kept} right and ${m - kept} wrong.`;
      box.setAttribute("aria-label", tally);
      const here = spread(kept / m);
      const lesson = here > 0
        ? `This group has contrast ${here.toFixed(2)}.`
        : "This group has no contrast: it teaches nothing.";
      const [pods, grpo] = [contrast(p, n, m), contrast(p, m, m)];
      root.querySelector(".says").textContent =
        `${tally} ${lesson} On average PODS ${n} → ${m} has ${pods.toFixed(2)},` +
        ` and GRPO, which generates ${m} and trains on all, has ${grpo.toFixed(2)}.`;
      plot(root.querySelector("svg"), n, m, p);
    };

    root.addEventListener("input", show);
    root.querySelector("button").addEventListener("click", () => { again(); show(); });
    again();
    show();
  };

  /** Average contrast against the pass rate: PODS as a solid line, GRPO dashed, the dial as a mark. */
  const plot = (svg, n, m, p) => {
    const x = (rate) => 44 + 330 * rate;
    const y = (value) => 150 - 260 * value;
    const rates = Array.from({ length: 99 }, (_, i) => (i + 1) / 100);
    const line = (size) =>
      rates.map((rate) => `${x(rate).toFixed(1)},${y(contrast(rate, size, m)).toFixed(1)}`).join(" ");
    svg.setAttribute("aria-label", `Average contrast against the pass rate, PODS ${n} to ${m} and GRPO ${m}/${m}`);
    svg.innerHTML = `
      <g stroke="currentColor" stroke-opacity=".35"><path d="M44 150H374M44 150V20" fill="none"/></g>
      <text x="38" y="154" text-anchor="end">0</text><text x="38" y="24" text-anchor="end">0.5</text>
      <text x="44" y="166" text-anchor="middle">0 %</text><text x="374" y="166" text-anchor="middle">100 %</text>
      <text x="209" y="182" text-anchor="middle">pass rate</text><text x="44" y="12">average contrast</text>
      <polyline points="${line(n)}" fill="none" stroke="#0072b2" stroke-width="2.5"/>
      <polyline points="${line(m)}" fill="none" stroke="#7f7f7f" stroke-width="2" stroke-dasharray="5 4"/>
      <circle cx="${x(p)}" cy="${y(contrast(p, n, m))}" r="5" fill="#0072b2"/>
      <circle cx="${x(p)}" cy="${y(contrast(p, m, m))}" r="5" fill="#7f7f7f"/>
      <path d="M150 120h22" stroke="#0072b2" stroke-width="2.5"/><text x="178" y="124">PODS ${n} → ${m}</text>
      <path d="M150 138h22" stroke="#7f7f7f" stroke-width="2" stroke-dasharray="5 4"/><text x="178" y="142">GRPO ${m}/${m}</text>`;
  };

  const start = () => {
    const root = document.getElementById("pods-figure");
    if (root) draw(root);
  };
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
