"use strict";
// The run: curves over steps or over training time, and a prompt to begin with.

const runChoice = { hidden: new Set(), time: false, curves: null };
const MOST_CURVES = 6; // of runs, above which there is one curve for each method

/** A line of a run: one of the columns of its steps, or of its metrics. */
function lineOf(curves, place, group, column, how = {}) {
  // `curves` are those of a run, or the mean of several.
  const columns = curves[group];
  if (!columns?.[column]) return null;
  const steps = columns.step ?? curves.steps.step;
  const x = runChoice.time ? secondsAt(curves, steps) : steps;
  return { label: curves.run, colour: colourOf(place), x, y: columns[column], ...how };
}

/** The training time at steps; that between two logged steps is between their times. */
function secondsAt(curves, steps) {
  const known = [];
  const { step = [], "pods/training_seconds": seconds } = curves.metrics;
  step.forEach((at, place) => {
    if (seconds && seconds[place] !== null) known.push([at, seconds[place]]);
  });
  return steps.map((at) => {
    const after = known.findIndex(([logged]) => logged >= at);
    if (after < 0) return null;
    const [step1, seconds1] = known[after];
    const [step0, seconds0] = after ? known[after - 1] : [0, 0];
    return seconds0 + ((seconds1 - seconds0) * (at - step0)) / (step1 - step0 || 1);
  });
}

/** The mean curves of each method over its seeds, as if each were a run. */
function meansOfMethods(all, state, placeOf) {
  const armOf = new Map(state.runs.map((run) => [run.name, methodOf(run)]));
  const ofMethod = new Map();
  for (const curves of all) {
    const arm = armOf.get(curves.run);
    ofMethod.set(arm, [...(ofMethod.get(arm) ?? []), curves]);
  }
  return [...ofMethod].map(([arm, runs]) => ({
    run: `${arm} (mean of ${runs.length})`,
    place: placeOf.get(runs[0].run),
    steps: meanColumns(runs.map((curves) => curves.steps)),
    functions: withoutStep(meanColumns(runs.map(({ steps, functions }) => ({ step: steps.step, ...functions })))),
    metrics: meanColumns(runs.map((curves) => curves.metrics)),
  }));
}

const withoutStep = ({ step, ...columns }) => columns;

/** The mean of each column at each step, over the runs that have a value there. */
function meanColumns(runs) {
  const steps = [...new Set(runs.flatMap((columns) => columns.step ?? []))].sort((a, b) => a - b);
  const placeOf = new Map(steps.map((step, place) => [step, place]));
  const found = { step: steps };
  for (const name of new Set(runs.flatMap(Object.keys))) {
    if (name === "step") continue;
    const values = steps.map(() => []);
    for (const columns of runs) {
      columns[name]?.forEach((value, at) => values[placeOf.get(columns.step[at])].push(value));
    }
    found[name] = values.map(mean);
  }
  return found;
}

async function runView(state) {
  const shown = state.runs.filter((run) => !runChoice.hidden.has(run.name));
  const [all, begin, histogram] = await Promise.all([
    Promise.all(shown.map((run) => ask("curves", { run: run.name }))),
    ask("featured"),
    histogramOf(state),
  ]);
  const placeOf = new Map(state.runs.map((run, place) => [run.name, place]));
  const hasSeeds = new Set(shown.map(methodOf)).size < shown.length;
  const byMethod = hasSeeds && (runChoice.curves ?? (shown.length > MOST_CURVES ? "method" : "run")) === "method";
  const drawn = byMethod ? meansOfMethods(all, state, placeOf) : all;
  const several = drawn.length > 1;
  const xLabel = runChoice.time ? "training seconds" : "step";

  const lines = (group, column, label, how) =>
    drawn
      .map((curves) => lineOf(curves, curves.place ?? placeOf.get(curves.run), group, column, how))
      .filter(Boolean)
      .map((line) => ({ ...line, label: several ? `${line.label}, ${label}` : label, kind: label }));
  const keptLabel = shown.some((run) => run.would_keep) ? "would be kept" : "kept";
  const pair = (whole, kept) => [
    ...lines("steps", whole, "all rollouts"),
    ...lines("steps", kept, keptLabel, { dashed: true }),
  ];
  const pick = (x) => openNearest(all, x);
  const allFunctions = [...new Set(all.flatMap((curves) => Object.keys(curves.functions)))];
  const functions = allFunctions.length > 1 ? allFunctions : [];
  const figures = [
    chart({
      title: "Reward", xLabel, pick,
      lines: [...pair("reward", "kept_reward"), ...lines("metrics", "eval_reward", "of evaluations", { dots: true })],
    }),
    histogram,
    ...functions.map((name) =>
      chart({ title: short(name, 60), unit: "reward function, mean", xLabel, pick, lines: lines("functions", name, "mean") }),
    ),
    chart({
      title: "Contrast", unit: "deviation of a prompt's rewards, mean", xLabel, pick, zero: true,
      lines: pair("contrast", "kept_contrast"),
    }),
    chart({
      title: "Prompts that teach", unit: "share whose rewards differ", xLabel, pick, zero: true,
      lines: lines("steps", "teaching", "share"),
    }),
    chart({
      title: "Rows with a pass", unit: "kept, with an advantage that is not 0", xLabel, pick, zero: true,
      lines: [
        ...lines("steps", "rows_with_pass", "with a pass"),
        ...lines("steps", "kept", keptLabel, { dashed: true }),
      ],
    }),
    chart({
      title: "Length", unit: "tokens of a completion, mean", xLabel, pick, zero: true,
      lines: pair("tokens", "kept_tokens"),
    }),
    chart({
      title: "Seconds of a step", unit: several ? `by phase, ${drawn[0].run}` : "by phase", xLabel,
      stacked: true, lines: drawn.length ? phases(drawn[0]) : [], zero: true,
    }),
    ...["entropy", "kl", "grad_norm"].map((name) =>
      chart({
        title: { entropy: "Entropy", kl: "KL", grad_norm: "Norm of the gradient" }[name],
        lines: lines("metrics", name, name), xLabel,
      }),
    ),
  ].filter(Boolean);

  const hasTime = all.some((curves) => curves.metrics["pods/training_seconds"]);
  const controls = element("div", "controls");
  if (hasTime) {
    controls.append(
      choice("over", "over", [["step", "steps"], ["time", "training time"]],
        runChoice.time ? "time" : "step", (value) => {
          runChoice.time = value === "time";
          show();
        }),
    );
  }
  if (hasSeeds) {
    controls.append(
      choice("curves", "curves", [["method", "the mean of each method"], ["run", "each run"]],
        byMethod ? "method" : "run", (value) => {
          runChoice.curves = value;
          show();
        }),
    );
    if (byMethod) controls.append(element("p", "legend", ...drawn.map(methodSwatch)));
  }
  if (state.choice && !PACKED) controls.append(ruleForm(state.choice));
  if (state.runs.length > 1) controls.append(runBoxes(state.runs, placeOf));

  const view = element("div", "run");
  const names = state.runs.map((run) => run.name);
  view.append(element("h1", "", names.length > 3 ? plural(names.length, "run") : names.join(", ")));
  view.append(...notesOf(state));
  view.append(controls);
  if (begin.group) view.append(featuredCard(begin.group));
  if (figures.length) view.append(element("div", "figures", ...figures));
  else view.append(element("p", "empty", emptyReason(state)));
  if (figures.length) {
    view.append(element("p", "small", "Click on a curve to open that step; drag to zoom in, double-click to zoom out."));
  }
  view.append(...shown.slice(0, 8).map(settingsOf).filter(Boolean));
  return view;
}

function methodSwatch({ run, place }) {
  const swatch = element("i");
  swatch.style.borderColor = colourOf(place);
  return element("span", "", swatch, ` ${run}`);
}

/** By which rule PODS would keep how many, where the files do not say what was kept. */
function ruleForm({ rule, keep, rules }) {
  const form = element("form", "rule");
  const number_ = element("input");
  number_.type = "number";
  number_.id = "keep";
  number_.min = 2;
  number_.value = keep ?? "";
  number_.placeholder = "a quarter";
  const choose = async () => {
    form.querySelector(".note")?.remove();
    const chosen = { rule: form.querySelector("select").value, keep: number_.value };
    try {
      state = await ask("choose", chosen, "POST");
      await show(true);
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      form.append(element("p", "note", error.message));
    }
  };
  form.append(
    choice("rule", "PODS would keep, by the rule", rules.map((name) => [name, name]), rule, choose),
    element("label", "field", element("span", "", "so many of each prompt"), number_),
  );
  number_.addEventListener("change", choose);
  form.addEventListener("submit", (event) => event.preventDefault());
  return form;
}

/** Why there is nothing to see. */
function emptyReason(state) {
  if (state.runs.some((run) => run.damaged.length)) return "Nothing could be read: the note above says why.";
  return "No rollouts yet: this page shows them as they come.";
}

/** The settings of a run, which are asked for when they are opened. */
function settingsOf(run) {
  if (run.format !== "podsrl") return null;
  const box = details(`settings ${run.name}`, "settings", `settings of ${run.name}`);
  box.addEventListener("toggle", async () => {
    if (!box.open || box.children.length > 1) return;
    const { settings } = await ask("settings", { run: run.name });
    const list = element("dl");
    for (const [name, value] of Object.entries(settings)) {
      list.append(element("dt", "", visible(name)), element("dd", "", visible(JSON.stringify(value))));
    }
    box.append(Object.keys(settings).length ? list : element("p", "small", "none are known"));
  });
  return box;
}

function phases(curves) {
  const names = ["update", "select", "score", "generate"];
  const colours = ["#0072b2", "#cc79a7", "#e69f00", "#56b4e9"];
  return names
    .map((name, place) =>
      lineOf(curves, 0, "metrics", `pods/seconds_${name}`, { label: name, colour: colours[place] }),
    )
    .filter(Boolean);
}

function runBoxes(runs, placeOf) {
  const boxes = element("fieldset", "runs", element("legend", "", "runs"));
  for (const run of runs) {
    const box = element("input");
    box.type = "checkbox";
    box.checked = !runChoice.hidden.has(run.name);
    box.addEventListener("change", () => {
      if (box.checked) runChoice.hidden.delete(run.name);
      else runChoice.hidden.add(run.name);
      show();
    });
    const swatch = element("i", "swatch");
    swatch.style.background = colourOf(placeOf.get(run.name));
    boxes.append(element("label", "", box, swatch, ` ${run.name}`));
  }
  return boxes;
}

/** Open the logged step that is nearest to where a curve was clicked. */
function openNearest(all, x) {
  let best = null;
  for (const curves of all) {
    const steps = curves.steps.step ?? [];
    const places = runChoice.time ? secondsAt(curves, steps) : steps;
    places.forEach((place, at) => {
      const far = place === null ? Infinity : Math.abs(place - x);
      if (!best || far < best.far) best = { far, run: curves.run, step: steps[at] };
    });
  }
  if (best) location.hash = stepAddress(best.run, best.step);
}

/** A prompt whose kept rollouts differ, as the first thing to look at. */
function featuredCard(group) {
  const address = groupAddress(group.run, group.step, group.group);
  const rewards = group.rollouts.map((rollout) => rollout.reward);
  const kept = group.rollouts.map((rollout) => rollout.kept);
  const keptCount = kept.filter(Boolean).length;
  const would = state.runs.find((run) => run.name === group.run)?.would_keep;
  return element(
    "section", "featured",
    element(
      "p", "small",
      `A prompt of step ${group.step} of ${group.run}: ${keptCount} of ${kept.length} rollouts ${keptWord(group.run, true)}.`,
    ),
    element("p", "asked", short(readable(group.prompt ?? ""), 280)),
    dots(rewards, kept),
    link(address, "go", would ? "See its rollouts side by side →" : "See what was kept and what was dropped →"),
  );
}

/** What is to be known before the curves are read: notes of one kind together. */
function notesOf(state) {
  const kinds = new Map();
  const add = (kind, run, text) => {
    if (!kinds.has(kind)) kinds.set(kind, []);
    kinds.get(kind).push([run.name, text]);
  };
  for (const run of state.runs) {
    for (const doubt of run.doubts) add("doubt", run, doubt);
    for (const damage of run.damaged) add("damage", run, damage);
    if (run.files_read < run.files) {
      add("files", run, `${count(run.files_read)} of ${count(run.files)} files were read so far; the curves get`
        + " finer, and a search covers those alone");
    }
  }
  const notes = [...aboutFormats(state), ...[...kinds].map(([kind, of]) => noteOfKind(kind, of, state.runs.length))];
  if (state.note) notes.push(element("p", "note", state.note));
  if (state.check) notes.push(checkNote(state.check));
  return notes;
}

/** What is to be known of files of other programs: once for all runs that are read alike. */
function aboutFormats(state) {
  const alike = new Map();
  for (const run of state.runs) {
    if (run.format === "podsrl" || (!run.rollouts && !run.note)) continue;
    const key = JSON.stringify([run.format, run.would_keep, run.note, run.reading]);
    alike.set(key, [...(alike.get(key) ?? []), run]);
  }
  return [...alike.values()].map((runs) => {
    const [run] = runs;
    const who = runs.length === state.runs.length ? "" : `${runs.map((one) => one.name).slice(0, 3).join(", ")}${runs.length > 3 ? " …" : ""}: `;
    const said = [`${who}${run.format}`];
    if (run.reading.reward) said.push(`the reward is ${run.reading.reward}`);
    if (run.would_keep) said.push(`it does not say what was kept; ${run.would_keep}`);
    const box = details(`about ${run.name}`, "about", visible(said.join(" · ")));
    if (run.note) box.append(element("p", "", visible(run.note)));
    const list = element("dl");
    for (const [name, how] of Object.entries(run.reading)) {
      list.append(element("dt", "", name), element("dd", "", visible(how)));
    }
    box.append(
      list,
      element("p", "", "Another field is named by --prompt, --completion, --reward, --group or --step."),
    );
    return box;
  });
}

function noteOfKind(kind, of, runs) {
  const [[name, text]] = of;
  const who = of.length === runs && runs > 1 ? "all runs" : name;
  if (of.length === 1 || new Set(of.map(([, one]) => one)).size === 1) {
    const names = of.length === 1 || who === "all runs" ? who : `${of.length} runs`;
    return element("p", "note", `${visible(names)}: ${visible(text)}.`);
  }
  const box = details(kind, "note", `${visible(name)}: ${visible(text)}, and ${of.length - 1} more like it`);
  for (const [other, more] of of.slice(1)) box.append(element("p", "", `${visible(other)}: ${visible(more)}.`));
  return box;
}

/** How far the user's own check is. */
function checkNote(check) {
  const said = `check ${check.name}: ${count(check.done)} of ${plural(check.rollouts, "rollout")}`;
  const failed = check.failed ? `; it failed for ${count(check.failed)}: ${check.problem}` : "";
  return element("p", check.failed ? "note" : "small check-state", visible(said + failed));
}
