"use strict";
// Search: filters whose result is an address that can be sent, and a file.

const searchAddress = (words) => `#/search?${new URLSearchParams(words)}`;

/** The words of a search: those of the columns' filters, and the others. */
function searchWords(state) {
  const words = ["run", "text", "pattern", "function", "part_min", "part_max", "label"];
  for (const { name, kind } of state.filters) {
    words.push(...(kind === "number" ? [`${name}_min`, `${name}_max`] : [name]));
  }
  return words;
}

async function searchView(state, words) {
  const known = searchWords(state).filter((name) => words[name]);
  const query = Object.fromEntries(known.map((name) => [name, words[name]]));
  const view = element("div", "search");
  const results = element("div", "results");
  view.append(element("h1", "", "Search"), searchForm(state, query), results);
  if (Object.keys(query).length) await addResults(results, query, "");
  else results.append(element("p", "small", "Without a filter every rollout is found, newest step first."),
    button("show all", () => addResults(results, query, "")));
  return view;
}

function searchForm(state, query) {
  const form = element("form", "filters");
  const field = (name, label, type = "text", placeholder = "") => {
    const input = element("input");
    input.type = type;
    input.id = name;
    input.name = name;
    input.placeholder = placeholder;
    input.value = query[name] ?? "";
    if (type === "number") input.step = "any";
    return element("label", `field ${name}`, element("span", "", label), input);
  };
  const pick = (name, label, options) => {
    const made = choice(name, label, options, query[name] ?? "", submit);
    made.querySelector("select").name = name;
    return made;
  };
  const between = (label, low, high) =>
    element("div", "between", field(low, label, "number", "from"), field(high, " ", "number", "to"));
  const functions = [...new Set(state.runs.flatMap((run) => run.functions))];
  const names = state.runs.map((run) => [run.name, run.name]);

  form.append(field("text", "text, in completion or turns", "search"));
  form.append(field("pattern", "or a pattern (RE2)", "search", String.raw`boxed\{\d+\}`));
  if (names.length > 1) form.append(pick("run", "run", [["", "all"], ...names]));
  for (const { name, kind, words } of state.filters) {
    const label = name.replace("_", " ");
    form.append(
      kind === "number"
        ? between(label, `${name}_min`, `${name}_max`)
        : pick(name, label, [["", "or not"], ["1", words[1]], ["0", words[0]]]),
    );
  }
  if (functions.length) {
    form.append(
      pick("function", "reward function", [["", "any"], ...functions.map((name) => [name, visible(name)])]),
      between("its value", "part_min", "part_max"),
    );
  }
  if (state.labels.length) {
    form.append(
      pick("label", "label", [["", "or none"], ["*", "any label or note"],
        ...state.labels.map((name) => [name, visible(name)])]),
    );
  }
  const go = element("button", "primary", "Search");
  form.append(go);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    submit();
  });
  function submit() {
    const said = [...new FormData(form)].filter(([, value]) => value !== "");
    location.hash = searchAddress(Object.fromEntries(said));
  }
  return form;
}

async function addResults(results, query, before) {
  const waiting = element("p", "small", "searching …");
  results.append(waiting);
  let found;
  try {
    found = await ask("search", before ? { ...query, before } : query);
  } finally {
    waiting.remove();
  }
  if (!before) results.replaceChildren(resultsHead(found, query));
  let list = results.querySelector(".hits");
  if (!list) results.append((list = element("ol", "hits")));
  for (const row of found.rows) list.append(hit(row, query));
  results.querySelector(".on")?.remove();
  results.append(resultsEnd(results, found, query));
}

function resultsHead(found, query) {
  const head = element("p", "summary");
  if (found.total !== null) head.append(`${plural(found.total, "rollout")} found`);
  if (!PACKED) {
    head.append(
      element("span", "downloads",
        element("a", "", "CSV"), " ", element("a", "", "parquet"),
        " of at most 100,000 rollouts"),
    );
    const [csv, parquet] = head.querySelectorAll("a");
    csv.href = downloadAddress(query, "csv");
    parquet.href = downloadAddress(query, "parquet");
    for (const file of [csv, parquet]) file.download = "";
  }
  return head;
}

/** What was searched so far, and a button that goes on. */
function resultsEnd(results, found, query) {
  const end = element("div", "on");
  const shown = results.querySelectorAll(".hits > li").length;
  if (found.read) {
    const { from, to, left } = found.read;
    const range = from === null ? "no step" : from === to ? `step ${to}` : `steps ${to} to ${from}`;
    end.append(
      element("p", "small",
        `Text is searched from the newest step on, one part at a time: ${range} just now, `
          + `${plural(left, "step")} left.`),
    );
  }
  if (!shown && !found.before) end.append(element("p", "empty", "Nothing found."));
  if (found.before) {
    end.append(button("go on", () => addResults(results, query, found.before), "more"));
  }
  return end;
}

/** Get the text of a hit that the search had no time for, once it is about to be seen. */
function fillWhenSeen(text, row) {
  const watch = new IntersectionObserver(async ([seen]) => {
    if (!seen.isIntersecting) return;
    watch.disconnect();
    const { run, step, group, rollout } = row;
    const whole = (await ask("text", { run, step, group, rollout })).text;
    text.textContent = visible(whole.slice(0, 400));
  }, { rootMargin: "300px" });
  watch.observe(text);
}

function hit(row, query) {
  const text = element("div", "text");
  text.dir = "auto";
  if (row.snippet === undefined) fillWhenSeen(text, row);
  const snippet = row.snippet ?? "";
  const sought = (row.matched ?? "").toLowerCase();
  const at = sought ? snippet.toLowerCase().indexOf(sought) : -1;
  if (at < 0) {
    text.append(visible(snippet));
  } else {
    text.append(
      visible(snippet.slice(0, at)),
      element("mark", "", visible(snippet.slice(at, at + sought.length))),
      visible(snippet.slice(at + sought.length)),
    );
  }
  return element(
    "li", row.kept ? "kept" : "dropped",
    element(
      "p", "facts",
      element("b", "", row.reward === null ? "no reward" : number(row.reward)),
      element("span", "mark", keptWord(row.run, row.kept)),
      row.tokens === null ? null : element("span", "", plural(row.tokens, "token")),
      link(groupAddress(row.run, row.step, row.group), "", `${row.run}, step ${row.step}, prompt ${row.group}`),
    ),
    text,
  );
}
