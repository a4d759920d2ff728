"use strict";
// Words or a pattern in texts, on an exported page, as `search.py` finds them in the app.

const PATTERN_SECONDS = 3; // of a step, from when the worker looks at it

/** What finds words, or a pattern, in a list of texts; it is to be closed. */
function finderOf(words, pattern) {
  if (words && pattern) throw new Refusal("give text or pattern, and not both");
  return pattern ? patternFinder(pattern) : wordFinder(words.toLowerCase());
}

/** For each text where the words stand in it, or null. */
function wordFinder(words) {
  const place = (text) => {
    const at = text.toLowerCase().indexOf(words);
    return at < 0 ? null : { at, matched: text.slice(at, at + words.length) };
  };
  return { find: async (texts) => texts.map(place), close: () => {} };
}

/**
 * For each text where the pattern is found first, or null.
 *
 * A browser's patterns may take for ever, which those of the app can't: so they are looked for by a
 * worker, which can be ended.
 */
function patternFinder(pattern) {
  const ours = inThisLanguage(pattern);
  const code = `const pattern = new RegExp(${JSON.stringify(ours)}, "is");
    onmessage = ({ data: texts }) => {
      postMessage("begun");
      postMessage(texts.map((text) => {
        const found = pattern.exec(text);
        return found && { at: found.index, matched: found[0].slice(0, 400) };
      }));
    };`;
  const address = URL.createObjectURL(new Blob([code], { type: "text/javascript" }));
  const worker = new Worker(address);
  const find = (texts) =>
    new Promise((resolve, reject) => {
      const refuse = (why) => reject(new Refusal(`pattern ${pattern} ${why}; the app finds it`));
      let late;
      worker.onerror = ({ message }) => refuse(`fails on a page (${message})`);
      worker.onmessage = ({ data }) => {
        if (data === "begun") {
          late = setTimeout(() => refuse("takes too long on a page"), PATTERN_SECONDS * 1000);
          return;
        }
        clearTimeout(late);
        resolve(data);
      };
      worker.postMessage(texts);
    });
  return {
    find,
    close: () => {
      worker.terminate();
      URL.revokeObjectURL(address);
    },
  };
}

/** A pattern of RE2 in the words of JavaScript; what only one of them knows is refused. */
function inThisLanguage(pattern) {
  const refuse = (why) => {
    throw new Refusal(`pattern ${pattern} is none that can be searched for: ${why}`);
  };
  // Any case, and a dot that is also the end of a line, are what the app has anyway.
  const body = pattern.replace(/^\(\?[is]+\)/, "");
  // A character after a backslash is one word with it.
  const words = body.match(/\\[\s\S]|\(\?P?<?[=!]?|\[\[:|[\s\S]/g) ?? [];
  const made = words.map((word, place) => {
    if (/^\\[1-9k]$/.test(word)) refuse("it refers back to a group");
    if (/^\(\?<?[=!]$/.test(word)) refuse("it looks ahead or behind");
    if (/^\\[pPQCx]$/.test(word) || word === "[[:") refuse(`the page does not know ${word}, and the app does`);
    if (word === "(?" && words[place + 1] !== ":") refuse("the page does not know such flags, and the app does");
    if (word === "\\A") return "^";
    if (word === "\\z") return "$";
    return word === "(?P<" ? "(?<" : word;
  }).join("");
  try {
    new RegExp(made);
  } catch (error) {
    refuse(error.message);
  }
  return made;
}
