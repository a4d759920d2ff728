"use strict";
// Which view is shown, the bar that says how far the runs are, and the keyboard.

const SECONDS = 2; // between two looks for something new
let state = null;
let around = {}; // the steps and prompts beside what is shown
let drawing = 0;
let drawnVersion = null; // of the state that the page shows

/** The view that the address names: its name, its words, and its filters. */
function place() {
  const [path, words] = location.hash.replace(/^#\/?/, "").split("?");
  const [name, ...rest] = path.split("/").map(decodeURIComponent);
  return { name: name || "run", rest, words: Object.fromEntries(new URLSearchParams(words ?? "")) };
}

function rememberNeighbours(data, group) {
  around = { run: data.run, step: data.step, earlier: data.earlier, later: data.later, group };
  if (group !== null) around.groups = data.groups;
  else around.first = [...data.groups].sort(ORDERS[stepChoice.order][1])[0]?.group;
}

async function viewOf({ name, rest, words }) {
  if (name === "step" && rest.length === 2) return stepView(state, ...rest);
  if (name === "group" && rest.length === 3) return groupView(state, ...rest);
  if (name === "search") return searchView(state, words);
  if (name === "compare") return compareView(state, ...rest);
  if (name === "pair" && rest.length === 6) return pairView(state, ...rest);
  return runView(state);
}

/**
 * Draw the view that the address names.
 *
 * With `keepPlace` it replaces the same view. If it `isUnwanted` once its data is there, it is given up.
 */
async function show(keepPlace = false, isUnwanted = () => false) {
  const mine = ++drawing;
  const at = place();
  const { version } = state;
  around = {};
  let made;
  try {
    made = await viewOf(at);
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    made = element("p", "note", error.message);
  }
  if (mine !== drawing || isUnwanted()) return; // another view was asked for meanwhile
  const main = document.getElementById("view");
  if (keepPlace) unfoldAsBefore(made, main);
  main.replaceChildren(made);
  main.dataset.view = at.name;
  forgetCharts();
  drawnVersion = version;
  if (!keepPlace) window.scrollTo(0, 0);
  showViews(at);
}

/** Unfold what the reader has unfolded in the same view. */
function unfoldAsBefore(made, before) {
  const unfolded = new Set();
  for (const box of before.querySelectorAll("details[open]")) unfolded.add(box.dataset.name);
  for (const box of made.querySelectorAll("details[data-name]")) box.open = unfolded.has(box.dataset.name);
}

/** Whether the reader types, chooses, or looks at a part of a curve, which is not to be taken away. */
function isInUse() {
  const field = document.activeElement?.closest("#view :is(input, select, textarea)");
  return Boolean(field) || isZoomed();
}

function showViews(at) {
  const run = state.runs.find((one) => one.last_step !== null);
  const step = around.step ?? run?.last_step;
  const links = [["run", "#/", "Run"]];
  if (run && step !== null) links.push(["step", stepAddress(around.run ?? run.name, step), "Step"]);
  if (state.runs.length > 1) links.push(["compare", "#/compare", "Compare"]);
  links.push(["search", "#/search", "Search"]);
  const views = document.getElementById("views");
  views.replaceChildren(element("strong", "", "podsrl"));
  for (const [name, address, text] of links) {
    const isHere = name === at.name || (name === "step" && at.name === "group")
      || (name === "compare" && at.name === "pair");
    const made = link(address, isHere ? "here" : "", text);
    if (isHere) made.setAttribute("aria-current", "page");
    views.append(made);
  }
}

/** How far each run is that still trains; of one that ended, its last step. */
function showBar() {
  const bar = document.getElementById("bar");
  const runs = state.runs.filter((run) => run.state === "training");
  const shown = runs.length ? runs : state.runs.slice(0, 1);
  bar.replaceChildren();
  for (const run of shown.slice(0, 4)) {
    const said = [run.step === null ? waitingFor(run) : `step ${count(run.step)}`];
    if (run.total_steps) said[0] += ` of ${count(run.total_steps)}`;
    if (run.seconds_left !== null) said.push(`${duration(run.seconds_left)} left`);
    if (run.reward !== null) said.push(`reward ${number(run.reward)}`);
    if (run.state === "finished" || run.state === "stopped") said.push(run.state);
    const line = element("span", `run-state ${run.state}`);
    if (state.runs.length > 1) line.append(element("b", "", `${run.name} `));
    line.append(
      run.last_step === null ? said.join(" · ") : link(stepAddress(run.name, run.last_step), "", said.join(" · ")),
    );
    if (run.total_steps && run.step !== null) {
      const done = element("progress");
      done.max = run.total_steps;
      done.value = run.step;
      line.append(done);
    }
    bar.append(line);
  }
}

/** Why a run shows no step. */
function waitingFor(run) {
  if (run.damaged.length) return "nothing could be read";
  return run.files > run.files_read ? "reading" : "waiting for the first step";
}

/** Look for new steps for as long as the page is open. */
async function follow() {
  for (;;) {
    await new Promise((done) => setTimeout(done, SECONDS * 1000));
    if (document.hidden) continue;
    try {
      if (document.querySelector(".note-form")) continue; // somebody writes a note
      const before = state;
      state = await ask("state");
      document.body.classList.remove("lost");
      const isNew = state.version !== before.version;
      // A run that ends may leave nothing new to read.
      if (JSON.stringify(state) !== JSON.stringify(before)) showBar();
      if (place().name === "run") {
        if (state.version !== drawnVersion && !isInUse()) await show(true, isInUse);
      } else if (isNew && around.step !== undefined && around.later === null) {
        await showLater();
      }
    } catch {
      document.body.classList.add("lost"); // the server was stopped, or restarts
      document.getElementById("bar").replaceChildren(element("span", "warn", "the server does not answer; trying again"));
      state.version = -1;
      drawnVersion = null;
    }
  }
}

/** On the newest step, offer the one that came after it. */
async function showLater() {
  const later = await stepAfter(around);
  if (later === null) return;
  around.later = later;
  const address = around.group === null
    ? stepAddress(around.run, later)
    : groupAddress(around.run, later, around.group);
  const made = link(address, "step-link", "→");
  made.id = "later";
  document.getElementById("later")?.replaceWith(made);
}

/** The logged step after one of a run; the newest one if that was thinned out while it is read. */
async function stepAfter({ run, step }) {
  try {
    return (await ask("step", { run, step, most: 1 })).later;
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    const last = state.runs.find((one) => one.name === run)?.last_step ?? step;
    return last > step ? last : null;
  }
}

const KEYS = {
  ArrowLeft: () => goToStep(around.earlier),
  ArrowRight: () => goToStep(around.later),
  n: () => goToPrompt(1),
  p: () => goToPrompt(-1),
  u: () => around.step !== undefined && (location.hash = stepAddress(around.run, around.step)),
  r: () => (location.hash = "#/"),
  "/": () => {
    location.hash = "#/search";
    setTimeout(() => document.getElementById("text")?.focus(), 100);
  },
};

function goToStep(step) {
  if (step === null || step === undefined) return;
  location.hash = around.group === null
    ? stepAddress(around.run, step)
    : groupAddress(around.run, step, around.group);
}

function goToPrompt(by) {
  if (around.step === undefined) return;
  if (around.group === null) {
    if (around.first !== undefined) location.hash = groupAddress(around.run, around.step, around.first);
    return;
  }
  const next = around.groups[around.groups.indexOf(around.group) + by];
  if (next !== undefined) location.hash = groupAddress(around.run, around.step, next);
}

// A key that is pressed while a page is being shown goes on from that page.
let shown = Promise.resolve();

document.addEventListener("keydown", (event) => {
  const isTyping = event.target.closest("input, select, textarea");
  if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
  const does = KEYS[event.key];
  if (!does) return;
  event.preventDefault();
  shown.then(does, does);
});

async function begin() {
  state = await ask("state");
  document.getElementById("keys").textContent =
    "keys: ← → step · n p prompt · u all prompts · r run · / search";
  showBar();
  const steps = state.runs.filter((run) => run.logged_steps > 0);
  const isOneStep = steps.length === 1 && steps[0].logged_steps === 1 && steps[0].state === "files";
  if (!location.hash && isOneStep) {
    history.replaceState(null, "", stepAddress(steps[0].name, steps[0].last_step));
  }
  window.addEventListener("hashchange", () => { shown = show(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => show(true));
  await show();
  if (!PACKED) follow();
}

begin();
