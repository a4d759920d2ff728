"use strict";
// Labels and notes of a rollout, which the server keeps in a file beside the run.

const LABELS = ["good", "bad", "reward is wrong", "hack", "unclear"];

/** What was said of a rollout, and a form to say something. */
function notesOfRollout(data, rollout) {
  const box = element("div", "notes");
  draw();
  return box;

  function draw() {
    box.replaceChildren();
    if (rollout.label) box.append(element("span", "label", visible(rollout.label)));
    if (rollout.note) box.append(element("span", "said", visible(rollout.note)));
    if (!PACKED) box.append(button(rollout.label || rollout.note ? "change" : "label or note", open, "unfold"));
  }

  function open() {
    const form = element("form", "note-form");
    const label = element("input");
    label.value = rollout.label ?? "";
    label.placeholder = "label";
    label.maxLength = 60;
    label.setAttribute("aria-label", "label");
    label.setAttribute("list", "labels");
    const note = element("textarea");
    note.value = rollout.note ?? "";
    note.placeholder = "note";
    note.maxLength = 4000;
    note.setAttribute("aria-label", "note");
    form.append(label, note, element("button", "primary", "Save"), button("Cancel", draw), labelList());
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      const words = {
        run: data.run, step: data.step, group: data.group, rollout: rollout.rollout,
        label: label.value.trim(), note: note.value.trim(),
      };
      try {
        const saved = await ask("mark", words, "POST");
        Object.assign(rollout, saved);
        if (saved.label && !state.labels.includes(saved.label)) state.labels.push(saved.label);
        draw();
      } catch (error) {
        form.append(element("p", "note", error.message));
      }
    });
    box.replaceChildren(form);
    label.focus();
  }
}

/** The labels that are offered: those in use, and some to begin with. */
function labelList() {
  const list = element("datalist");
  list.id = "labels";
  for (const label of new Set([...state.labels, ...LABELS])) {
    const option = element("option");
    option.value = label;
    list.append(option);
  }
  return list;
}
