"use strict";
// The log-probabilities of the tokens of a completion, where the log has them.

/** A completion whose tokens are shaded by how unlikely they were; null where it is not known. */
function tokensOf(rollout) {
  const values = rollout.token_logprobs;
  if (!values?.length) return null;
  const box = element("details", "tokens");
  const least = values.reduce((low, value, place) => (value < values[low] ? place : low), 0);
  const perplexity = Math.exp(-mean(values));
  const entropies = rollout.token_entropies;
  box.append(
    element(
      "summary", "",
      `${values.length < (rollout.tokens ?? 0) ? "first " : ""}${plural(values.length, "token")}: perplexity ${number(perplexity)}, the least likely at `
        + `${number(100 * Math.exp(values[least]), 2)} %`
        + (entropies?.length ? `, mean entropy ${number(mean(entropies))}` : ""),
    ),
  );
  box.addEventListener("toggle", () => {
    if (box.open && box.children.length === 1) box.append(shaded(rollout, values));
  });
  return box;
}

function shaded(rollout, values) {
  const ends = rollout.token_ends;
  const characters = charactersOf(rollout.completion ?? "");
  const line = element("div", ends ? "text" : "text strip");
  values.forEach((value, place) => {
    const from = ends && place ? ends[place - 1] : 0;
    // Where the log does not say where tokens end, a bar stands for each.
    const token = element("span", "", ends ? visible(characters.slice(from, ends[place]).join("")) : "▮");
    const entropy = rollout.token_entropies?.[place];
    token.title = `token ${place}: probability ${number(100 * Math.exp(value), 3)} %`
      + (entropy === undefined ? "" : `, entropy ${number(entropy)}`);
    token.style.setProperty("--unlikely", Math.min(1, -value / 5).toFixed(2));
    line.append(token);
  });
  return line;
}

/** The images of a rollout's conversation; nothing but plain images in data addresses. */
function imagesOf(rollout) {
  if (!rollout.images) return null;
  let found;
  try {
    found = JSON.parse(rollout.images);
  } catch {
    return null;
  }
  const box = element("div", "images");
  for (const address of found) {
    if (!/^data:image\/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/=\s]+$/.test(address)) continue;
    const image = element("img");
    image.src = address;
    image.alt = "an image of the conversation";
    box.append(image);
  }
  return box.children.length ? box : null;
}
