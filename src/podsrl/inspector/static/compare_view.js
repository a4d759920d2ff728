"use strict";
// Two runs side by side: the prompts that both have, and the rollouts of one of them.

const compareAddress = (left, right) =>
  `#/compare/${encodeURIComponent(left)}/${encodeURIComponent(right)}`;
const pairAddress = (left, right) =>
  `#/pair/${[left.run, left.step, left.group, right.run, right.step, right.group].map(encodeURIComponent).join("/")}`;

/** The prompts that two runs have in common, those first whose mean rewards differ most. */
async function compareView(state, left, right) {
  const names = state.runs.map((run) => run.name);
  const one = names.includes(left) ? left : names[0];
  const other = names.includes(right) && right !== one ? right : names.find((name) => name !== one);
  const view = element("div", "compare");
  view.append(element("h1", "", "Two runs side by side"));
  if (other === undefined) {
    view.append(element("p", "empty", "Open two runs to compare them: pods inspect RUN RUN."));
    return view;
  }
  const options = names.map((name) => [name, name]);
  view.append(
    element(
      "div", "controls",
      choice("left", "left", options, one, (name) => (location.hash = compareAddress(name, other))),
      choice("right", "right", options, other, (name) => (location.hash = compareAddress(one, name))),
    ),
  );
  const found = await ask("shared", { left: one, right: other });
  view.append(
    element(
      "p", "summary",
      `${plural(found.prompts, "prompt")} in both, those first whose mean rewards differ most; of each run`
        + " the last step that has the prompt.",
    ),
  );
  const list = element("ol", "hits pairs");
  for (const row of found.rows) {
    const at = (side) => ({
      run: found[side], step: row[`${side}_step`], group: row[`${side}_group`],
    });
    const difference = row.left_reward === null || row.right_reward === null
      ? null : row.right_reward - row.left_reward;
    list.append(
      element(
        "li", "",
        element(
          "p", "facts",
          element("b", "", difference === null ? "—" : `${difference > 0 ? "+" : ""}${number(difference)}`),
          element("span", "", `${one}, step ${row.left_step}: ${number(row.left_reward)}`),
          element("span", "", `${other}, step ${row.right_step}: ${number(row.right_reward)}`),
          link(pairAddress(at("left"), at("right")), "", "side by side →"),
        ),
        element("div", "text", short(readable(row.prompt ?? ""), 240)),
      ),
    );
  }
  view.append(list);
  return view;
}

/** The rollouts of a prompt in two places, each in a column of its own. */
async function pairView(state, ...words) {
  const places = [words.slice(0, 3), words.slice(3)];
  const groups = await Promise.all(
    places.map(([run, step, group]) => ask("group", { run, step, group })),
  );
  const view = element("div", "pair");
  view.append(
    element(
      "p", "prompt-line",
      link(compareAddress(groups[0].run, groups[1].run), "", "all prompts of both"),
    ),
    askedOf(groups[0]),
  );
  const columns = element("div", "columns");
  for (const data of groups) {
    const rewards = data.rollouts.map((rollout) => rollout.reward);
    const kept = data.rollouts.map((rollout) => rollout.kept);
    const sides = outcomes(rewards);
    const texts = data.rollouts.map((rollout) => withoutEnd(rollout.completion ?? ""));
    const column = element("section", "");
    column.append(
      element(
        "h2", "",
        link(groupAddress(data.run, data.step, data.group), "", `${data.run}, step ${data.step}`),
      ),
      element(
        "p", "summary",
        `${plural(kept.length, "rollout")}, mean reward ${number(mean(rewards))}, mean length `
          + `${number(mean(data.rollouts.map((rollout) => rollout.tokens)))}`,
      ),
      dots(rewards, kept),
    );
    const compare = comparison(texts, sides);
    const cards = element("div", "cards one");
    for (const item of identical(data.rollouts, sides).slice(0, CARDS)) {
      cards.append(rolloutCard(data, item, sides, texts, compare));
    }
    column.append(cards);
    columns.append(column);
  }
  view.append(columns);
  return view;
}
