"use strict";
// The run: curves over steps or over training time, and a prompt to begin with.

const runChoice = { hidden: new Set(), time: false };

/** A line of a run: one of the columns of its steps, or of its metrics. */
function lineOf(curves, place, group, column, how = {}) {
  const columns = curves[group];
  if (!columns?.[column]) return null;
  const x = runChoice.time ? secondsAt(curves, columns.step) : columns.step;
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

async function runView(state) {
  const shown = state.runs.filter((run) => !runChoice.hidden.has(run.name));
  const [all, begin] = await Promise.all([
    Promise.all(shown.map((run) => ask("curves", { run: run.name }))),
    ask("featured"),
  ]);
  const placeOf = new Map(state.runs.map((run, place) => [run.name, place]));
  const several = shown.length > 1;
  const xLabel = runChoice.time ? "training seconds" : "step";

  const lines = (group, column, label, how) =>
    all
      .map((curves) => lineOf(curves, placeOf.get(curves.run), group, column, how))
      .filter(Boolean)
      .map((line) => ({ ...line, label: several ? `${line.label}, ${label}` : label, kind: label }));
  const pair = (whole, kept) => [
    ...lines("steps", whole, "all rollouts"),
    ...lines("steps", kept, "kept", { dashed: true }),
  ];
  const pick = (x) => openNearest(all, x);
  const figures = [
    chart({ title: "Reward", lines: pair("reward", "kept_reward"), xLabel, pick }),
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
        ...lines("steps", "kept", "kept", { dashed: true }),
      ],
    }),
    chart({
      title: "Length", unit: "tokens of a completion, mean", xLabel, pick, zero: true,
      lines: pair("tokens", "kept_tokens"),
    }),
    chart({
      title: "Seconds of a step", unit: several ? `by phase, ${all[0].run}` : "by phase", xLabel,
      stacked: true, lines: all.length ? phases(all[0]) : [], zero: true,
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
  if (state.runs.length > 1) controls.append(runBoxes(state.runs, placeOf));

  const view = element("div", "run");
  view.append(element("h1", "", state.runs.map((run) => run.name).slice(0, 4).join(", ")));
  view.append(...notesOf(state));
  view.append(controls);
  if (begin.group) view.append(featuredCard(begin.group));
  if (figures.length) view.append(element("div", "figures", ...figures));
  else view.append(element("p", "empty", "No rollouts yet: this page shows them as they come."));
  if (figures.length) {
    view.append(element("p", "small", "Click on a curve to open that step; drag to zoom in, double-click to zoom out."));
  }
  return view;
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
  return element(
    "section", "featured",
    element(
      "p", "small",
      `A prompt of step ${group.step} of ${group.run}: ${keptCount} of ${kept.length} rollouts were kept.`,
    ),
    element("p", "asked", short(readable(group.prompt ?? ""), 280)),
    dots(rewards, kept),
    link(address, "go", "See what was kept and what was dropped →"),
  );
}

/** What is to be known before the curves are read. */
function notesOf(state) {
  const notes = [];
  for (const run of state.runs) {
    if (run.note) notes.push(`${run.name}: ${run.note}.`);
    notes.push(...run.damaged);
    if (run.files_read < run.files) {
      notes.push(
        `${run.name}: ${count(run.files_read)} of ${count(run.files)} files were read so far; the`
          + " curves get finer, and a search covers those alone.",
      );
    }
  }
  if (state.note) notes.push(state.note);
  return notes.map((note) => element("p", "note", note));
}
