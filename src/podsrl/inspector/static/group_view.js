"use strict";
// The group: the rollouts of one prompt side by side.

const groupChoice = { kept: "", differences: true };
const CARDS = 60; // at first

async function groupView(state, run, step, number_) {
  const data = await ask("group", { run, step, group: number_ });
  rememberNeighbours(data, data.group);
  const rewards = data.rollouts.map((rollout) => rollout.reward);
  const kept = data.rollouts.map((rollout) => rollout.kept);
  const sides = outcomes(rewards);
  const at = data.groups.indexOf(data.group);
  const cards = element("div", "cards");

  const view = element("div", "group");
  view.append(stepLine(state, data, (to) => groupAddress(data.run, to, data.group)));
  view.append(
    element(
      "p", "prompt-line",
      at > 0 ? link(groupAddress(data.run, data.step, data.groups[at - 1]), "", "← previous prompt") : null,
      element("b", "", `Prompt ${at + 1} of ${data.groups.length}`),
      at + 1 < data.groups.length
        ? link(groupAddress(data.run, data.step, data.groups[at + 1]), "", "next prompt →")
        : null,
      link(stepAddress(data.run, data.step), "", "all prompts of the step"),
    ),
  );
  view.append(...[askedOf(data), elsewhereOf(data)].filter(Boolean));
  view.append(
    element(
      "p", "summary",
      `${kept.filter(Boolean).length} of ${plural(kept.length, "rollout")} ${keptWord(data.run, true)} · mean reward `
        + `${number(mean(rewards))} · of these ${number(mean(rewards.filter((_, i) => kept[i])))}`,
    ),
    dots(rewards, kept, (place) => showCard(cards, place)),
    KEY(data.run),
    element(
      "div", "controls",
      choice("kept", "show",
        [["", "all rollouts"], ["1", keptWord(data.run, true)], ["0", keptWord(data.run, false)]],
        groupChoice.kept, (value) => {
          groupChoice.kept = value;
          show();
        }),
      differencesBox(),
    ),
  );

  const shown = identical(data.rollouts, sides).filter(
    (item) => !groupChoice.kept || item.places.some((place) => kept[place] === (groupChoice.kept === "1")),
  );
  const texts = data.rollouts.map((rollout) => withoutEnd(rollout.completion ?? ""));
  const compare = comparison(texts, sides);
  const draw = (items) => {
    for (const item of items) cards.append(rolloutCard(data, item, sides, texts, compare));
  };
  draw(shown.slice(0, CARDS));
  view.append(cards);
  if (shown.length > CARDS) {
    const more = button(`show ${shown.length - CARDS} more`, () => {
      draw(shown.slice(CARDS));
      more.remove();
    }, "more");
    view.append(more);
  }
  return view;
}

function differencesBox() {
  const box = element("input");
  box.type = "checkbox";
  box.id = "differences";
  box.checked = groupChoice.differences;
  box.addEventListener("change", () => {
    groupChoice.differences = box.checked;
    show();
  });
  return element("label", "check", box, " mark what differs from the nearest rollout of the other outcome");
}

/** The prompt as a person reads it, the right answer, and the prompt as the model reads it. */
function askedOf(data) {
  const prompt = data.prompt ?? "";
  const asked = readable(prompt);
  const box = element("div", "question");
  const text = element("div", "text", visible(asked));
  text.id = "question";
  text.dir = "auto";
  box.append(folded(text));
  if (data.answer !== null && data.answer !== undefined) {
    box.append(element("p", "gold", "right answer ", element("b", "", visible(data.answer))));
  }
  const columns = Object.entries(data.data ?? {}).filter(([, value]) => value !== data.answer);
  if (columns.length) {
    const list = element("dl", "of-row");
    for (const [name, value] of columns) {
      list.append(element("dt", "", visible(name)), element("dd", "", visible(String(value))));
    }
    box.append(element("details", "", element("summary", "", "its row of the dataset"), list));
  }
  if (asked !== prompt.trim()) {
    const whole = element("pre", "text", visible(prompt));
    box.append(element("details", "", element("summary", "", "as the model reads it"), whole));
  }
  return box;
}

/** The same prompt in other steps and runs. */
function elsewhereOf(data) {
  const others = data.elsewhere.filter(
    (other) => !(other.run === data.run && other.step === data.step && other.group === data.group),
  );
  if (!others.length) return null;
  const list = element("p", "elsewhere", "The same prompt: ");
  others.slice(0, 40).forEach((other, place) => {
    const name = other.run === data.run ? `step ${other.step}` : `${other.run} step ${other.step}`;
    list.append(
      place ? " · " : "",
      link(groupAddress(other.run, other.step, other.group), "", `${name}: ${number(other.reward)}`),
      " ", link(pairAddress(data, other), "beside", "◫"),
    );
  });
  if (others.length > 40) list.append(` and ${others.length - 40} more`);
  return list;
}

/** Rollouts of the same text and outcome, together. */
function identical(rollouts, sides) {
  const items = new Map();
  rollouts.forEach((rollout, place) => {
    const key = JSON.stringify([
      sides[place], rollout.completion, rollout.length, rollout.turns, rollout.tokens, rollout.reward,
      rollout.rewards, rollout.label, rollout.note, rollout.check,
    ]);
    if (!items.has(key)) items.set(key, { places: [] });
    items.get(key).places.push(place);
  });
  return [...items.values()];
}

/** A function that says, of a rollout, which one of the other outcome it is nearest to. */
function comparison(texts, sides) {
  const MOST = 200;
  const sets = texts.map((text) => new Set(wordsOf(text.slice(0, 8000))));
  const of = (side) => sides.flatMap((own, place) => (own === side ? [place] : [])).slice(0, MOST);
  const others = { above: of("below"), below: of("above") };
  return (place) => {
    const candidates = others[sides[place]];
    return candidates?.length ? nearest(sets, place, candidates) : null;
  };
}

function rolloutCard(data, item, sides, texts, compare) {
  const place = item.places[0];
  const rollout = data.rollouts[place];
  const keptOf = item.places.filter((other) => data.rollouts[other].kept);
  const other = compare(place);
  const card = element("article", `${sides[place]} ${keptOf.length ? "kept" : "dropped"}`.trim());
  card.id = `rollout-${rollout.rollout}`;
  card.append(...[factsOf(data, item, keptOf), partsOf(rollout), imagesOf(rollout)].filter(Boolean));

  const turns = rollout.turns && readTurns(rollout.turns);
  if (turns) card.append(turnsOf(turns));
  if (rollout.turns_length !== null) card.append(cutTurns(rollout, turns));
  if (!turns || rollout.turns_length !== null) {
    const text = element("div", "text");
    text.dir = "auto";
    const marked = groupChoice.differences && other !== null;
    if (marked) {
      for (const [words, differs] of differences(texts[place], texts[other])) {
        text.append(differs ? element("mark", "", visible(words)) : visible(words));
      }
    } else {
      text.append(visible(texts[place]));
    }
    const cut = rollout.length > charactersOf(rollout.completion ?? "").length;
    const more = cut && (async () => {
      const words = { run: data.run, step: data.step, group: data.group, rollout: rollout.rollout };
      text.textContent = visible((await ask("text", words)).text);
    });
    card.append(folded(text, more));
    if (marked) {
      const jump = link(`#rollout-${data.rollouts[other].rollout}`, "", `rollout ${data.rollouts[other].rollout}`);
      jump.addEventListener("click", (event) => {
        event.preventDefault();
        showCard(card.closest(".cards"), other);
      });
      card.append(element("p", "compared", "differs from ", jump, ", the nearest of the other outcome"));
    }
  }
  const tokens = tokensOf(rollout);
  if (tokens) card.append(tokens);
  card.append(notesOfRollout(data, rollout));
  card.dataset.places = item.places.join(" ");
  return card;
}

function factsOf(data, item, keptOf) {
  const rollout = data.rollouts[item.places[0]];
  const number_ = item.places.length;
  let mark = keptWord(data.run, keptOf.length > 0);
  if (number_ > 1) mark = `${number_} identical, ${keptOf.length || ""} ${mark}`.replace("  ", " ");
  const advantages = item.places.map((place) => data.rollouts[place].advantage);
  const hasAdvantage = advantages.some((value) => value !== null);
  return element(
    "p", "facts",
    element("b", "", rollout.reward === null ? "no reward" : number(rollout.reward)),
    element("span", "mark", mark),
    hasAdvantage ? element("span", "", `advantage ${number(mean(advantages))}`) : null,
    rollout.tokens === null ? null : element("span", "", plural(rollout.tokens, "token")),
    rollout.cut_off ? element("span", "warn", "cut off") : null,
    rollout.check === null ? null : element("span", "check-value", `check ${number(rollout.check)}`),
    element("span", "", `rollout ${rollout.rollout}`),
  );
}

function partsOf(rollout) {
  const parts = Object.entries(rollout.rewards ?? {});
  if (!parts.length) return null;
  return element(
    "p", "parts",
    parts.map(([name, value]) => `${visible(name)} ${value === null ? "gave none" : number(value)}`).join(" · "),
  );
}

function readTurns(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null; // another program's own text
  }
}

/** What is said where a rollout has more turns than a page gets; its last message follows. */
function cutTurns(rollout, turns) {
  const first = turns.length ? `the first ${plural(turns.length, "turn")} of it` : "none of its turns";
  return element(
    "p", "note",
    `This conversation has ${count(rollout.turns_length)} characters: the page holds ${first}, and its last message.`,
  );
}

/** The turns of a rollout with tools; what tools return is folded. */
function turnsOf(turns) {
  const box = element("div", "turns");
  const add = (kind, name, text, isFolded) => {
    const body = element("pre", "text", visible(text));
    body.dir = "auto";
    const label = element("span", "who", visible(name));
    box.append(
      isFolded
        ? element("details", kind, element("summary", "", label, element("span", "peek", short(text, 60))), body)
        : element("div", kind, label, body),
    );
  };
  for (const turn of turns) {
    if (turn.role === "tool") {
      const cut = turn.length ? `, first ${count(charactersOf(turn.text ?? "").length)} of ${count(turn.length)} characters` : "";
      add("returns", `${turn.name ?? "tool"} returned${cut}`, turn.text ?? "", true);
      continue;
    }
    if (turn.thinking) add("thinks", "the model thinks", turn.thinking, true);
    if (turn.text) add("says", turn.role === "assistant" ? "the model" : turn.role, withoutEnd(turn.text), false);
    for (const call of turn.calls ?? []) add("calls", `calls ${call.name}`, call.arguments ?? "", true);
  }
  return box;
}

/** Bring the card of a rollout into view, among the cards of its group. */
function showCard(cards, place) {
  for (const card of cards.querySelectorAll("article")) {
    const isIt = card.dataset.places.split(" ").includes(String(place));
    card.classList.toggle("found", isIt);
    if (isIt) card.scrollIntoView({ block: "center" });
  }
}
