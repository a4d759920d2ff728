"use strict";
// Where the views get what they show: from the server, or from the exported page itself.

const PACKED = document.getElementById("packed");
const TOKEN = new URLSearchParams(location.search).get("token") ?? "";

/** What went wrong, in the words of the server. */
class Refusal extends Error {}

/** Ask for one of the server's answers by its name. */
async function ask(name, words = {}, method = "GET") {
  if (PACKED) return askPacked(name, words);
  const answer = await fetch(`api/${name}?${new URLSearchParams(words)}`, {
    headers: { "x-token": TOKEN }, method,
  });
  if (answer.ok) return answer.json();
  const text = await answer.text();
  let message = text;
  try {
    message = JSON.parse(text).error ?? text;
  } catch {
    // the text is the message
  }
  throw new Refusal(message);
}

/** The address of a file with all that a search finds. */
const downloadAddress = (words, format) =>
  `api/download?${new URLSearchParams({ ...words, format, token: TOKEN })}`;

// ---- an exported page

const packedIndex = PACKED && JSON.parse(PACKED.textContent);
const unpacked = new Map();
const PACKED_PAGE = 500; // rollouts that a search shows at once

/** A step with its groups, which the page holds as gzip of JSON in base64. */
async function unpack(id) {
  if (!unpacked.has(id)) {
    const packed = atob(document.getElementById(id).textContent);
    const bytes = Uint8Array.from(packed, (character) => character.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    if (unpacked.size > 3) unpacked.delete(unpacked.keys().next().value);
    unpacked.set(id, JSON.parse(await new Response(stream).text()));
  }
  return unpacked.get(id);
}

async function packedStep(run, step) {
  const found = packedIndex.steps.find(
    (entry) => entry.run === run && entry.step === Number(step),
  );
  if (!found) throw new Refusal(`step ${step} of ${run} is not on this page`);
  return unpack(found.id);
}

async function askPacked(name, words) {
  if (name === "state") return packedIndex.state;
  if (name === "curves") return packedIndex.curves.find((curves) => curves.run === words.run);
  if (name === "settings") return packedIndex.settings.find((of) => of.run === words.run);
  if (name === "histogram") {
    const wanted = words.function || null;
    return packedIndex.histograms.find((of) => of.run === words.run && of.function === wanted);
  }
  if (name === "shared") return sharedOnPage(words);
  if (name === "search") return searchPacked(words);
  if (name === "featured") {
    const at = packedIndex.featured;
    return { group: at && (await packedStep(at.run, at.step)).groups[at.group] };
  }
  const step = await packedStep(words.run, words.step);
  if (name === "step") return step.step;
  const group = step.groups[words.group];
  if (!group) throw new Refusal(`prompt ${words.group} of step ${words.step} is not on this page`);
  if (name === "group") return group;
  throw new Refusal("this page holds the beginning of that text only");
}

/** The prompts that two runs have in common on the page; of each run the last step that has one. */
async function sharedOnPage({ left, right }) {
  const found = { [left]: new Map(), [right]: new Map() };
  for (const entry of packedIndex.steps) {
    if (!(entry.run in found)) continue;
    const { step } = await unpack(entry.id);
    for (const group of step.groups) found[entry.run].set(group.prompt, { step: entry.step, ...group });
  }
  const rows = [];
  for (const [prompt, one] of found[left]) {
    const other = found[right].get(prompt);
    if (!other) continue;
    rows.push({
      prompt, left_step: one.step, left_group: one.group, left_reward: one.reward,
      right_step: other.step, right_group: other.group, right_reward: other.reward,
    });
  }
  const apart = (row) => Math.abs((row.left_reward ?? 0) - (row.right_reward ?? 0));
  rows.sort((a, b) => apart(b) - apart(a));
  return { left, right, prompts: rows.length, rows: rows.slice(0, 200) };
}

const within = (value, low, high) =>
  (!low || (value !== null && value !== undefined && value >= Number(low))) &&
  (!high || (value !== null && value !== undefined && value <= Number(high)));

/** Whether a rollout passes the filters that the list of columns gives. */
function passes(rollout, words) {
  return packedIndex.state.filters.every(({ name, kind }) =>
    kind === "number"
      ? within(rollout[name], words[`${name}_min`], words[`${name}_max`])
      : !words[name] || Boolean(rollout[name]) === (words[name] === "1"),
  );
}

/** Whether it passes all filters but those of texts. */
function passesAll(rollout, words) {
  if (!passes(rollout, words)) return false;
  if (words.label && !isLabelled(rollout, words.label)) return false;
  if (!words.function) return true;
  const part = rollout.rewards[words.function] ?? null;
  return part !== null && within(part, words.part_min, words.part_max);
}

/** What `search.py` finds, among the rollouts that the page holds. */
async function searchPacked(words) {
  const finder = finderOf(words.text ?? "", words.pattern ?? "");
  const rows = [];
  try {
    for (const entry of [...packedIndex.steps].reverse()) {
      if (words.run && entry.run !== words.run) continue;
      const { groups } = await unpack(entry.id);
      const passing = Object.values(groups).flatMap((group) =>
        group.rollouts
          .map((rollout) => ({ ...rollout, run: group.run, step: group.step, group: group.group }))
          .filter((rollout) => passesAll(rollout, words)),
      );
      const inCompletions = await finder.find(passing.map((rollout) => rollout.completion));
      const inTurns = await finder.find(passing.map((rollout) => rollout.turns ?? ""));
      passing.forEach((rollout, place) => {
        const found = inCompletions[place];
        if (!found && !inTurns[place]) return;
        const at = Math.max(0, (found?.at ?? 0) - 100);
        rows.push({
          ...rollout,
          snippet: rollout.completion.slice(at, at + 400),
          matched: found?.matched ?? "",
        });
      });
    }
  } finally {
    finder.close();
  }
  const first = Number(words.before ?? 0);
  const end = first + PACKED_PAGE;
  return {
    rows: rows.slice(first, end),
    before: end < rows.length ? String(end) : "",
    total: rows.length,
    read: null,
  };
}

const isLabelled = (rollout, label) =>
  label === "*" ? Boolean(rollout.label || rollout.note) : rollout.label === label;
