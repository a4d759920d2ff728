"use strict";
// The step: its prompts as a grid, sorted and coloured by pass rate.

const stepChoice = { order: "reward", most: 200 };
const stepAddress = (run, step) => `#/step/${encodeURIComponent(run)}/${step}`;
const groupAddress = (run, step, group) => `#/group/${encodeURIComponent(run)}/${step}/${group}`;

const ORDERS = {
  reward: ["pass rate, lowest first", (a, b) => (a.reward ?? -1) - (b.reward ?? -1)],
  high: ["pass rate, highest first", (a, b) => (b.reward ?? -1) - (a.reward ?? -1)],
  contrast: ["contrast, highest first", (a, b) => (b.contrast ?? -1) - (a.contrast ?? -1)],
  kept: ["most kept first", (a, b) => b.kept - a.kept],
  number: ["number", (a, b) => a.group - b.group],
};

async function stepView(state, run, step) {
  const data = await ask("step", { run, step, most: stepChoice.most });
  rememberNeighbours(data, null);
  const groups = [...data.groups].sort(ORDERS[stepChoice.order][1]);
  const drawn = groups.filter((group) => group.dots);
  const kept = data.groups.reduce((sum, group) => sum + group.kept, 0);
  const rollouts = data.groups.reduce((sum, group) => sum + group.rollouts, 0);
  const teaching = data.groups.filter((group) => group.contrast > 0).length;

  const view = element("div", "step");
  view.append(
    stepLine(state, data, (to) => stepAddress(data.run, to)),
    element(
      "p", "summary",
      `${plural(data.prompts, "prompt")} · ${plural(rollouts, "rollout")} · ${count(kept)} ${keptWord(data.run, true)} · `
        + `${plural(teaching, "prompt")} with different rewards`,
    ),
    element(
      "div", "controls",
      choice("order", "order", Object.entries(ORDERS).map(([key, [name]]) => [key, name]),
        stepChoice.order, (value) => {
          stepChoice.order = value;
          show();
        }),
    ),
    KEY(data.run),
  );
  const grid = element("div", "grid");
  for (const group of drawn) grid.append(promptCard(data, group));
  view.append(grid);
  const left = data.groups.length - drawn.length;
  if (left > 0) {
    view.append(
      button(`show ${plural(left, "more prompt")}`, () => {
        stepChoice.most = data.groups.length;
        show();
      }, "more"),
    );
  }
  return view;
}

function promptCard(data, group) {
  const card = link(groupAddress(data.run, data.step, group.group), "prompt");
  const low = data.low ?? 0;
  const share = group.reward === null ? 0 : (group.reward - low) / (data.high - low || 1);
  const rate = element("i");
  rate.style.width = `${(100 * share).toFixed(1)}%`;
  const said = group.reward === null ? "no reward" : data.is_pass_rate
    ? `${Math.round(100 * group.reward)} % pass`
    : `mean reward ${number(group.reward)}`;
  card.append(
    element("span", "rate", rate),
    element("span", "facts", element("b", "", said), ` · ${group.kept} of ${group.rollouts} ${keptWord(data.run, true)}`),
    element("span", "asked", short(readable(group.prompt ?? ""), 160)),
    dots(group.dots.reward, group.dots.kept),
  );
  card.classList.add(share > 0.999 ? "all" : share < 0.001 ? "none" : "some");
  return card;
}

/** The line that says which step is shown, and leads to the ones before and after it. */
function stepLine(state, data, addressOf) {
  const known = state.runs.find((run) => run.name === data.run);
  const toggled = (text, to, id) => {
    const made = to === null ? element("span", "step-link off", text) : link(addressOf(to), "step-link", text);
    made.id = id;
    return made;
  };
  const go = element("input");
  go.id = "go-to";
  go.type = "number";
  go.value = data.step;
  go.setAttribute("aria-label", "step");
  go.addEventListener("change", () => (location.hash = stepAddress(data.run, go.value)));
  const line = element(
    "div", "step-line",
    toggled("←", data.earlier, "earlier"),
    element("h1", "", "Step ", go),
    toggled("→", data.later, "later"),
  );
  if (state.runs.length > 1) {
    line.append(
      choice("run", "run", state.runs.map((run) => [run.name, run.name]), data.run, (name) => {
        const other = state.runs.find((run) => run.name === name);
        location.hash = stepAddress(name, Math.min(data.step, other.last_step ?? data.step));
      }),
    );
  } else {
    line.append(element("span", "small", data.run));
  }
  if (known?.last_step !== data.step && known?.last_step !== null) {
    line.append(link(stepAddress(data.run, known.last_step), "small", `newest: ${known.last_step}`));
  }
  return line;
}
