"use strict";
// What two completions have in common, word by word.

const LONGEST = 1200; // words that are compared between what both begin and end with

const wordsOf = (text) => text.match(/[\p{L}\p{N}_]+|\s+|[^\p{L}\p{N}_\s]/gu) ?? [];

/** The share of words that two sets have in common (Jaccard). */
function alike(left, right) {
  let both = 0;
  for (const word of left) if (right.has(word)) both++;
  return both / (left.size + right.size - both || 1);
}

/** The place of the text that shares most words with the one at `place`, among `others`. */
function nearest(sets, place, others) {
  let best = null;
  let most = -1;
  for (const other of others) {
    const share = alike(sets[place], sets[other]);
    if (share > most) [best, most] = [other, share];
  }
  return best;
}

/** The words of `text` as [words, differs] pieces: what `other` does not have in their order. */
function differences(text, other) {
  const own = wordsOf(text);
  const theirs = wordsOf(other);
  let start = 0;
  while (start < own.length && start < theirs.length && own[start] === theirs[start]) start++;
  let end = 0;
  const shorter = Math.min(own.length, theirs.length) - start;
  while (end < shorter && own[own.length - 1 - end] === theirs[theirs.length - 1 - end]) end++;

  const middle = own.slice(start, own.length - end);
  const differs = middleDiffers(middle, theirs.slice(start, theirs.length - end));
  return pieces(own, (place) => {
    const inMiddle = place >= start && place < own.length - end;
    return inMiddle && differs[place - start];
  });
}

/** Which words of the first list are not in a longest common subsequence of both. */
function middleDiffers(own, theirs) {
  if (own.length > LONGEST || theirs.length > LONGEST) return own.map(() => true);
  const width = theirs.length + 1;
  const common = new Uint16Array((own.length + 1) * width);
  for (let i = own.length - 1; i >= 0; i--) {
    for (let j = theirs.length - 1; j >= 0; j--) {
      common[i * width + j] =
        own[i] === theirs[j]
          ? common[(i + 1) * width + j + 1] + 1
          : Math.max(common[(i + 1) * width + j], common[i * width + j + 1]);
    }
  }

  const differs = own.map(() => true);
  let i = 0;
  let j = 0;
  while (i < own.length && j < theirs.length) {
    if (own[i] === theirs[j]) {
      differs[i] = false;
      i++;
      j++;
    } else if (common[(i + 1) * width + j] >= common[i * width + j + 1]) {
      i++;
    } else {
      j++;
    }
  }
  return differs;
}

/** Words joined to pieces that differ, or don't, as a whole. */
function pieces(words, differs) {
  const joined = [];
  words.forEach((word, place) => {
    const last = joined[joined.length - 1];
    const is = Boolean(differs(place));
    if (last && last[1] === is) last[0] += word;
    else joined.push([word, is]);
  });
  return joined;
}
