"use strict";
// The rollout inspector. What models and users wrote is only ever set as textContent or value.
(() => {
  const PAGE = 40; // rollouts drawn at a time; more as the reader scrolls
  const STRIP = 1024; // squares that still read as a picture
  const TOOLS = 100; // names in the list of tools; a model may invent any number
  const $ = (id) => document.getElementById(id);
  const { runs } = JSON.parse($("index").textContent);
  const unpacked = new Map();
  let data = null;
  let rewards = []; // that there are, by prompt
  let tools = []; // names of those that were called in the step
  let rows = [];
  let items = []; // rows, identical ones together
  let drawn = 0;
  let asked = 0;

  function element(tag, text, className) {
    const made = document.createElement(tag);
    if (text !== undefined) made.textContent = text;
    if (className) made.className = className;
    return made;
  }

  function fill(select, names) {
    const options = document.createDocumentFragment();
    names.forEach((name, value) => {
      const option = element("option", name);
      option.value = value;
      options.append(option);
    });
    select.replaceChildren(options);
  }

  const number = (value, digits = 3) =>
    value === null ? "—" : Number(value.toPrecision(digits)).toString();
  const short = (text, length) => {
    const line = text.replace(/\s+/g, " ").trim();
    return line.length > length ? line.slice(0, length - 1) + "…" : line;
  };
  const mean = (values) => {
    const there = values.filter((value) => value !== null);
    return there.length ? there.reduce((a, b) => a + b, 0) / there.length : null;
  };

  /** Above or below the mean of its prompt; nothing where all of a prompt's rewards are equal. */
  function outcome(i) {
    const of = rewards[data.prompt[i]];
    if (data.reward[i] === null || Math.min(...of) === Math.max(...of)) return "";
    return data.reward[i] >= mean(of) ? "above" : "below";
  }

  /** Prompts without what all of them begin and end with. */
  function distinct(prompts) {
    const common = (texts) => {
      let end = 0;
      while (end < texts[0].length && texts.every((text) => text[end] === texts[0][end])) end++;
      return end;
    };
    if (prompts.length < 2) return prompts.map((text) => text.trim().split("\n").pop());
    const first = common(prompts);
    const last = common(prompts.map((text) => [...text.slice(first)].reverse().join("")));
    const start = prompts[0].lastIndexOf(" ", first) + 1; // from the beginning of a word
    return prompts.map((text) => text.slice(Math.min(start, first), text.length - last));
  }

  async function unpack(name) {
    if (!unpacked.has(name)) {
      const packed = atob($(name).textContent);
      const bytes = new Uint8Array(packed.length);
      for (let i = 0; i < packed.length; i++) bytes[i] = packed.charCodeAt(i);
      const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
      if (unpacked.size > 3) unpacked.delete(unpacked.keys().next().value);
      const data = JSON.parse(await new Response(stream).text());
      data.turns = data.turns.map((text) => text && JSON.parse(text));
      unpacked.set(name, data);
    }
    return unpacked.get(name);
  }

  function chooseRun() {
    const steps = runs[$("run").value].steps;
    $("step").max = steps.length - 1;
    return chooseStep(Math.min($("step").value, steps.length - 1));
  }

  async function chooseStep(place) {
    const run = runs[$("run").value];
    const step = run.steps[place];
    $("step").value = place;
    $("step-name").textContent = step.step;
    $("earlier").disabled = place === 0;
    $("later").disabled = place === run.steps.length - 1;
    const mine = ++asked;
    $("count").textContent = "unpacking …";
    const found = await unpack(step.chunk);
    if (mine !== asked) return; // the reader has moved on
    data = found;
    const wasAll = $("prompt").value === "all";
    rewards = data.prompts.map(() => []);
    data.prompt.forEach((prompt, i) => data.reward[i] !== null && rewards[prompt].push(data.reward[i]));
    fill($("prompt"), distinct(data.prompts).map((text, i) =>
      `${number(mean(rewards[i]), 2)} · ${short(text.slice(0, 400), 30) || `prompt ${i + 1}`}`));
    const kept = data.prompt.filter((_, i) => data.kept[i]);
    if (kept.length) $("prompt").value = Math.min(...kept); // the first prompt with any
    const all = element("option", `all ${data.prompts.length} prompts of the step`);
    all.value = "all";
    if (data.prompts.length > 1) $("prompt").append(all);
    if (data.prompts.length > 1 && wasAll) $("prompt").value = "all";
    fillTools();
    choose();
  }

  const calls = (i) => (data.turns[i] ?? []).flatMap((turn) => turn.calls ?? []);
  const texts = (i) => (data.turns[i] ?? [{ text: data.completion[i] }]).flatMap((turn) =>
    [turn.thinking, turn.text, ...(turn.calls ?? []).flatMap((call) => [call.name, call.arguments])]);

  /** The tools that were called in this step, most often first; the one that was chosen stays. */
  function fillTools() {
    const before = $("tool").value;
    const chosen = tools[before];
    const counts = new Map();
    data.completion.forEach((_, i) => new Set(calls(i).map((call) => call.name))
      .forEach((name) => counts.set(name, (counts.get(name) ?? 0) + 1)));
    tools = [...counts.keys()].sort((a, b) => counts.get(b) - counts.get(a)).slice(0, TOOLS);
    fill($("tool"), tools.map((name) => `${short(name, 30)} (${counts.get(name)})`));
    for (const [value, text] of [["none", "no tool"], ["", "any tool or none"]]) {
      const option = element("option", text);
      option.value = value;
      $("tool").prepend(option);
    }
    const none = before === "none" && tools.length ? "none" : "";
    $("tool").value = tools.includes(chosen) ? tools.indexOf(chosen) : none;
    $("tool").parentElement.hidden = tools.length === 0;
  }

  function called(i) {
    const tool = $("tool").value;
    if (tool === "") return true;
    return tool === "none" ? calls(i).length === 0 : calls(i).some((call) => call.name === tools[tool]);
  }

  function choose() {
    const prompt = $("prompt").value;
    const kept = $("kept").value;
    const words = $("search").value.toLowerCase();
    const all = data.completion.map((_, i) => i)
      .filter((i) => prompt === "all" || data.prompt[i] === Number(prompt));
    rows = all.filter((i) => (kept === "" || data.kept[i] === Number(kept)) && called(i) &&
      (words === "" || texts(i).some((text) => text?.toLowerCase().includes(words))));
    const rank = (i) => (data.reward[i] === null ? -Infinity : data.reward[i]);
    // of equals the kept come first; -Infinity - -Infinity is NaN, which "||" takes for equal
    const tie = (a, b) => data.kept[b] - data.kept[a] || a - b;
    const by = {
      high: (a, b) => rank(b) - rank(a) || tie(a, b),
      low: (a, b) => rank(a) - rank(b) || tie(a, b),
      long: (a, b) => data.tokens[b] - data.tokens[a] || tie(a, b),
    };
    rows.sort(by[$("order").value]);
    const same = new Map(); // identical rollouts are shown once
    for (const i of rows) {
      const key = JSON.stringify([data.prompt[i], data.reward[i], data.turns[i] ?? data.completion[i]]);
      if (!same.has(key)) same.set(key, []);
      same.get(key).push(i);
    }
    items = [...same.values()];
    $("asked").hidden = prompt === "all";
    $("question").textContent = prompt === "all" ? "" : data.prompts[prompt];
    const gold = prompt === "all" ? null : data.answers[prompt];
    $("gold").hidden = gold === null;
    $("gold").lastElementChild.textContent = gold ?? "";
    const { past } = runs[$("run").value];
    const visited = prompt !== "all" && Object.hasOwn(past, data.prompts[prompt]);
    drawPast(visited ? past[data.prompts[prompt]] : []);
    describe(all);
    drawStrip();
    $("list").replaceChildren();
    drawn = 0;
    drawMore();
  }

  /** The mean reward of the prompt in each step that generated for it. */
  function drawPast(visits) {
    const scored = visits.filter(([, reward]) => reward !== null);
    $("past").hidden = scored.length < 2;
    if (scored.length < 2) return;
    const [steps, means] = [0, 1].map((k) => scored.map((visit) => visit[k]));
    const place = (values, value, size) =>
      2 + (size - 4) * (value - Math.min(...values)) / (Math.max(...values) - Math.min(...values) || 1);
    $("past").querySelector("polyline").setAttribute("points", scored.map(([step, reward]) =>
      `${place(steps, step, 160)},${28 - place(means, reward, 28)}`).join(" "));
    const shown = [...scored.slice(0, 3), ...scored.slice(3).slice(-3)];
    $("past").lastElementChild.textContent = `mean reward over ${scored.length} steps: ` +
      shown.map(([step, reward], i) => (i === 3 && scored.length > 6 ? "… " : "") +
        `${number(reward, 2)} at ${step}`).join(", ");
  }

  function describe(all) {
    const keptRows = all.filter((i) => data.kept[i]);
    const part = rows.length === all.length ? "" : `${rows.length.toLocaleString("en")} of `;
    $("count").textContent = `${part}${all.length.toLocaleString("en")} rollouts · ` +
      `${keptRows.length.toLocaleString("en")} kept · mean reward ` +
      `${number(mean(all.map((i) => data.reward[i])))}, of the kept ` +
      `${number(mean(keptRows.map((i) => data.reward[i])))} · mean length ` +
      `${number(mean(all.map((i) => data.tokens[i])))} tokens`;
  }

  function drawStrip() {
    $("strip").replaceChildren(...(rows.length > STRIP ? [] : rows.map((i) => {
      const square = element("i", undefined, look([i]));
      square.title = `reward ${number(data.reward[i])}, ${data.kept[i] ? "kept" : "dropped"}`;
      square.addEventListener("click", () => show(items.findIndex((item) => item.includes(i))));
      return square;
    })));
  }

  function show(place) {
    while (drawn <= place) drawMore();
    document.querySelectorAll("#list > .found").forEach((li) => li.classList.remove("found"));
    const item = $("list").children[place];
    item.classList.add("found");
    item.scrollIntoView({ block: "center" });
  }

  function drawMore() {
    const next = items.slice(drawn, drawn + PAGE);
    $("list").append(...next.map(rollout));
    drawn += next.length;
    $("more").hidden = drawn >= items.length;
  }

  /** What a turn says, thinks, calls or returns, each with its name. */
  function turnOf(turn) {
    const tool = turn.role === "tool";
    const length = turn.length ? `, first ${[...turn.text].length.toLocaleString("en")} of ${turn.length.toLocaleString("en")} characters` : "";
    const who = tool ? `${turn.name ?? "tool"} returned${length}`
      : turn.role === "assistant" ? "the model says" : turn.role;
    const parts = [
      ...(turn.thinking ? [["thinks", "the model thinks", turn.thinking]] : []),
      ...(turn.text || tool ? [[tool ? "returns" : "says", who, turn.text ?? "nothing"]] : []),
      ...(turn.calls ?? []).map((call) => ["calls", `calls ${call.name}`, call.arguments]),
    ];
    return parts.map(([kind, label, text]) => {
      const part = element("div", undefined, kind);
      part.append(element("span", label), element("pre", text, "text"));
      return part;
    });
  }

  const look = (item) =>
    [outcome(item[0]), item.some((i) => data.kept[i]) ? "kept" : "dropped"].join(" ").trim();

  function rollout(item) {
    const i = item.find((one) => data.kept[one]) ?? item[0];
    const kept = item.filter((one) => data.kept[one]).length;
    const mark = item.length === 1 ? (kept ? "kept" : "dropped")
      : kept === 0 ? `${item.length} identical, dropped`
      : kept === item.length ? `${item.length} identical, kept`
      : `${item.length} identical, ${kept} kept`;
    const entry = element("li", undefined, look(item));
    const facts = element("p", undefined, "facts");
    const numbers = item.slice(0, 6).map((one) => data.rollout[one]).join(", ") + (item.length > 6 ? ", …" : "");
    facts.append(
      element("b", data.reward[i] === null ? "not scored" : number(data.reward[i], 4)),
      element("span", mark, "mark"),
      element("span", `${data.tokens[i]} tokens`),
      ...(calls(i).length ? [element("span", calls(i).length === 1 ? "1 tool call" : `${calls(i).length} tool calls`)] : []),
      ...(data.advantage[i] === null ? [] : [element("span", `advantage ${number(data.advantage[i])}`)]),
      ...Object.entries(data.rewards).map(([name, of]) => element("span", `${name} ${of[i] === null ? "gave none" : number(of[i])}`)),
      element("span", `rollout ${numbers}` +
        ($("prompt").value === "all" ? ` of prompt ${data.prompt[i] + 1}` : "")),
    );
    const turns = data.turns[i];
    const text = turns ? element("div", undefined, "turns") : element("pre", data.completion[i], "text");
    text.append(...(turns ?? []).flatMap(turnOf));
    entry.append(facts, text);
    const shown = texts(i).join("\n");
    if (shown.length > (turns ? 2000 : 600) || shown.split("\n", 32).length > (turns ? 30 : 7)) {
      text.classList.add("cut");
      const unfold = element("button", "Show all", "unfold");
      unfold.type = "button";
      unfold.addEventListener("click", () => {
        const cut = text.classList.toggle("cut");
        unfold.textContent = cut ? "Show all" : "Show less";
      });
      entry.append(unfold);
    }
    return entry;
  }

  fill($("run"), runs.map((run) => run.name));
  $("controls").addEventListener("submit", (event) => event.preventDefault());
  $("run").addEventListener("change", chooseRun);
  $("step").addEventListener("input", () => chooseStep(Number($("step").value)));
  $("earlier").addEventListener("click", () => chooseStep(Number($("step").value) - 1));
  $("later").addEventListener("click", () => chooseStep(Number($("step").value) + 1));
  for (const id of ["prompt", "kept", "order", "tool"]) $(id).addEventListener("change", choose);
  $("search").addEventListener("input", choose);
  $("more").addEventListener("click", drawMore);
  new IntersectionObserver((seen) => {
    if (seen.some((entry) => entry.isIntersecting) && !$("more").hidden) drawMore();
  }, { rootMargin: "600px" }).observe($("more"));
  if (typeof DecompressionStream === "undefined") {
    $("count").textContent = "This browser is too old to unpack the rollouts; one of 2023 or later can.";
  } else {
    chooseRun();
  }
})();
