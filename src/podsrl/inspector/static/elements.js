"use strict";
// Elements and texts. What models and users wrote is only ever set as textContent or value.

/** An element with its class and its children, which are elements or texts. */
function element(tag, className, ...children) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

/** A link to a view of this page. */
function link(address, className, ...children) {
  const made = element("a", className, ...children);
  made.href = address;
  return made;
}

/** A button that does something. */
function button(text, does, className) {
  const made = element("button", className, text);
  made.type = "button";
  made.addEventListener("click", does);
  return made;
}

/** What can be unfolded, and stays so under its name when the view is drawn anew. */
function details(name, className, summary, ...children) {
  const made = element("details", className, element("summary", "", summary), ...children);
  made.dataset.name = name;
  return made;
}

/** A choice among [value, text] pairs. */
function choice(id, label, options, chosen, does) {
  const select = element("select");
  select.id = id;
  for (const [value, text] of options) {
    const option = element("option", "", text);
    option.value = value;
    select.append(option);
  }
  select.value = chosen;
  select.addEventListener("change", () => does(select.value));
  return element("label", "field", element("span", "", label), select);
}

/** Characters that are not seen, or that turn the direction of others, by their names. */
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]/g;

/** A text as it can be read: a terminal's codes and marks of direction are shown by name. */
function visible(text) {
  return text.replace(UNSEEN, (character) => {
    const code = character.codePointAt(0);
    if (code < 0x20) return String.fromCodePoint(0x2400 + code);
    return `⟨U+${code.toString(16).toUpperCase().padStart(4, "0")}⟩`;
  });
}

const SPECIAL = String.raw`<\|[^<>|\s]{1,40}\|>|<\/?s>|<(?:bos|eos|pad)>|<(?:start|end)_of_turn>|\[\/?INST\]`;
const ROLE = new RegExp(
  String.raw`(?:${SPECIAL})\s*(?:(system|user|assistant|model|tool)\b)?(?:<\|end_header_id\|>)?\s*`
    + String.raw`|(?:^|\n\n)(system|developer|user|assistant|tool): `, "g",
);

/**
 * What a person asked, without the marks of a chat template around it.
 *
 * The whole prompt, as the model reads it, can be unfolded where it is shown.
 */
function readable(prompt) {
  const turns = [];
  let role = "";
  let from = 0;
  for (const mark of prompt.matchAll(ROLE)) {
    turns.push([role, prompt.slice(from, mark.index)]);
    role = mark[1] ?? mark[2] ?? role;
    from = mark.index + mark[0].length;
  }
  turns.push([role, prompt.slice(from)]);
  const said = turns.filter(([, text]) => text.trim());
  const asked = said.filter(([by]) => by === "user");
  const shown = asked.length ? asked[asked.length - 1][1] : said.map(([, text]) => text).join("\n");
  return shown.trim() || prompt.trim();
}

const MARK = new RegExp(`^(?:${SPECIAL})$`);
const LONGEST_MARK = 44; // characters

/** A completion without the marks that end it; each of its characters is looked at a few times. */
function withoutEnd(completion) {
  let isMarked = false;
  let end = completion.length;
  for (;;) {
    while (end && /\s/.test(completion[end - 1])) end--;
    const tail = completion.slice(Math.max(0, end - LONGEST_MARK), end);
    const mark = tail.slice(tail.lastIndexOf(tail.endsWith("]") ? "[" : "<"));
    if (!MARK.test(mark)) return isMarked ? completion.slice(0, end) : completion;
    isMarked = true;
    end -= mark.length;
  }
}

/** The characters of a text as the server counts them: an emoji is one, and two units of a string. */
const charactersOf = (text) => Array.from(text);

/** The first characters of a text, on one line. */
function short(text, length) {
  const line = visible(text.replace(/\s+/g, " ").trim());
  return line.length > length ? line.slice(0, length - 1) + "…" : line;
}

/** A number with few digits; a dash where there is none. */
function number(value, digits = 3) {
  if (value === null || value === undefined) return "—";
  return Number(value.toPrecision(digits)).toString();
}

const count = (value) => (value ?? 0).toLocaleString("en");
const plural = (value, word) => `${count(value)} ${word}${value === 1 ? "" : "s"}`;

/** Seconds as a person says them. */
function duration(seconds) {
  if (seconds === null || seconds === undefined) return "";
  if (seconds < 90) return `${Math.round(seconds)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  return `${(seconds / 3600).toFixed(1)} h`;
}

/** A text that is folded where it is long, and can be unfolded. */
function folded(content, more) {
  const box = element("div", "folded", content);
  const unfold = button("show all", async () => {
    box.classList.add("open");
    unfold.remove();
    try {
      if (more) await more();
    } catch (error) {
      box.after(element("p", "note", error.message));
    }
  }, "unfold");
  const watch = new ResizeObserver(() => {
    if (content.scrollHeight > box.clientHeight + 8 || more) box.after(unfold);
    watch.disconnect();
  });
  watch.observe(box);
  return element("div", "", box);
}

const mean = (values) => {
  const there = values.filter((value) => value !== null && value !== undefined);
  return there.length ? there.reduce((a, b) => a + b, 0) / there.length : null;
};

/** "above" or "below" the mean of a group's rewards; nothing where all are equal. */
function outcomes(rewards) {
  const there = rewards.filter((reward) => reward !== null);
  const middle = mean(there);
  const differ = Math.min(...there) < Math.max(...there);
  return rewards.map((reward) => {
    if (reward === null || !differ) return "";
    return reward >= middle ? "above" : "below";
  });
}

/** One dot for each rollout: filled if it was kept, in the colour of its outcome. */
function dots(rewards, kept, does) {
  const strip = element("div", "dots");
  const sides = outcomes(rewards);
  rewards.forEach((reward, place) => {
    const dot = element("i", `${sides[place]} ${kept[place] ? "kept" : "dropped"}`.trim());
    if (does) {
      dot.title = `reward ${number(reward)}, ${kept[place] ? "kept" : "dropped"}`;
      dot.addEventListener("click", () => does(place));
    }
    strip.append(dot);
  });
  return strip;
}

/** What is said of a rollout: a log may not say what was kept, but what PODS would keep. */
function keptWord(run, isKept) {
  const would = state.runs.find((one) => one.name === run)?.would_keep;
  if (would) return isKept ? "would be kept" : "would be dropped";
  return isKept ? "kept" : "dropped";
}

const KEY = (run) =>
  element(
    "p", "key",
    element("span", "", element("i", "above kept"), element("i", "below kept"), ` ${keptWord(run, true)}`),
    element("span", "", element("i", "above dropped"), element("i", "below dropped"), ` ${keptWord(run, false)}`),
    element("span", "", element("i", "above kept"), " reward at or above its prompt's mean"),
    element("span", "", element("i", "below kept"), " below it"),
  );
