"use strict";
// How many rollouts have which reward: bars that lead to the rollouts.

const histogramChoice = { run: null, function: "", from: "", to: "" };

/** The histogram of a run, with the choice of run, function and steps above it. */
async function histogramOf(state) {
  const runs = state.runs.filter((run) => run.logged_steps > 0);
  const run = runs.find((one) => one.name === histogramChoice.run) ?? runs[0];
  if (!run) return null;
  const wanted = run.functions.includes(histogramChoice.function) ? histogramChoice.function : "";

  const words = { run: run.name, function: wanted };
  if (histogramChoice.from) words.step_min = histogramChoice.from;
  if (histogramChoice.to) words.step_max = histogramChoice.to;
  const found = await ask("histogram", words);

  const figure = element("figure", "histogram");
  figure.append(element("figcaption", "", "Rewards", element("small", "", " rollouts by value; a bar leads to them")));
  const controls = element("div", "controls");
  if (runs.length > 1) {
    controls.append(
      choice("histogram-run", "run", runs.map((one) => [one.name, one.name]), run.name, (name) => {
        histogramChoice.run = name;
        redrawHistogram(state);
      }),
    );
  }
  if (run.functions.length) {
    controls.append(
      choice("histogram-function", "of", [["", "the reward"], ...run.functions.map((name) => [name, visible(name)])],
        wanted, (name) => {
          histogramChoice.function = name;
          redrawHistogram(state);
        }),
    );
  }
  if (!PACKED && run.first_step !== run.last_step) {
    controls.append(stepBound(state, "from", "from step", run.first_step), stepBound(state, "to", "to step", run.last_step));
  }
  figure.append(controls, barsOf(run, found, words));
  return figure;
}

function stepBound(state, end, label, placeholder) {
  const input = element("input");
  input.type = "number";
  input.id = `histogram-${end}`;
  input.value = histogramChoice[end];
  input.placeholder = placeholder;
  input.addEventListener("change", () => {
    histogramChoice[end] = input.value;
    redrawHistogram(state);
  });
  return element("label", "field", element("span", "", label), input);
}

function barsOf(run, found, words) {
  const most = Math.max(1, ...found.bins.map((bin) => bin.kept + bin.dropped));
  const bars = element("div", "bars");
  for (const bin of found.bins) {
    const total = bin.kept + bin.dropped;
    const query = { run: run.name };
    if (words.step_min) query.step_min = words.step_min;
    if (words.step_max) query.step_max = words.step_max;
    if (words.function) Object.assign(query, { function: words.function, part_min: bin.low, part_max: bin.high });
    else Object.assign(query, { reward_min: bin.low, reward_max: bin.high });

    const bar = link(searchAddress(query), "bar");
    const span = bin.low === bin.high ? number(bin.low) : `${number(bin.low)} to ${number(bin.high)}`;
    bar.title = `${span}: ${plural(total, "rollout")}, ${count(bin.kept)} ${keptWord(run.name, true)}`;
    const column = element("span", "column");
    for (const [kind, value] of [["dropped", bin.dropped], ["kept", bin.kept]]) {
      const part = element("i", kind);
      part.style.height = `${(100 * value) / most}%`;
      column.append(part);
    }
    bar.append(element("small", "", short(compact(total), 8)), column, element("small", "", number(bin.low, 2)));
    bars.append(bar);
  }
  const box = element("div", "", bars);
  const legend = element("p", "legend",
    element("span", "", element("i", "box kept"), ` ${keptWord(run.name, true)}`),
    element("span", "", element("i", "box dropped"), ` ${keptWord(run.name, false)}`));
  if (found.without) legend.append(element("span", "", `${plural(found.without, "rollout")} without a value`));
  box.append(legend);
  return box;
}

/** A count in few characters. */
const compact = (value) => new Intl.NumberFormat("en", { notation: "compact" }).format(value);

async function redrawHistogram(state) {
  const made = await histogramOf(state);
  document.querySelector("figure.histogram")?.replaceWith(made);
}
