// The paired tests of `engram.analysis.statistics`, for any two rows: the same formulas, and a test holds them equal.

const ALPHA = 0.05, EXACT = 20, DRAWN = 100000, DIGITS = 1e9;

// b − a over the seeds that both have; a side is {of: [values], seeds: [if they are not 0, 1, 2, …]}.
function pairedDifferences(a, b) {
  const bySeed = side => new Map((side?.of ?? []).map((value, i) => [side.seeds?.[i] ?? i, value]));
  const left = bySeed(a), right = bySeed(b), seeds = [...left.keys()].filter(seed => right.has(seed)).sort((x, y) => x - y);
  return { seeds, differences: seeds.map(seed => Math.round((right.get(seed) - left.get(seed)) * DIGITS) / DIGITS) };
}

// All sums of the numbers with a sign each, the first positive: a pattern and its negative are as far from 0.
function signedSums(numbers) {
  let sums = Float64Array.of(numbers[0]);
  for (const number of numbers.slice(1)) {
    const next = new Float64Array(2 * sums.length);
    sums.forEach((sum, i) => { next[i] = sum + number; next[sums.length + i] = sum - number; });
    sums = next;
  }
  return sums;
}

// Random bits from a fixed seed (mulberry32): more than 20 pairs have too many patterns to count.
function randomBits(seed = 0) {
  let state = seed, word = 0, left = 0;
  return () => {
    if (!left) {
      state = (state + 0x6d2b79f5) | 0;
      let t = Math.imul(state ^ (state >>> 15), 1 | state);
      t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
      word = t ^ (t >>> 14);
      left = 32;
    }
    left -= 1;
    return (word >>> left) & 1;
  };
}

function pairedTest(differences) {
  const n = differences.length, moved = differences.filter(d => d !== 0), size = moved.reduce((sum, d) => sum + Math.abs(d), 0);
  if (!moved.length) return { n, difference: n ? 0 : null, p: 1, least: 1, moved: 0 };
  const total = moved.reduce((sum, d) => sum + d, 0), far = Math.abs(total) - 1e-12 * size, exact = moved.length <= EXACT;
  let p;
  if (exact) {
    const sums = signedSums(moved);
    p = sums.reduce((found, sum) => found + (Math.abs(sum) >= far), 0) / sums.length;
  } else {
    const bit = randomBits();
    let found = 1;
    for (let i = 0; i < DRAWN; i++) found += Math.abs(moved.reduce((sum, d) => sum + (bit() ? d : -d), 0)) >= far;
    p = found / (DRAWN + 1);
  }
  return { n, difference: total / n, p, least: exact ? 2 ** (1 - moved.length) : 1 / (DRAWN + 1), moved: moved.length };
}

// The differences that the test does not reject: between the k-th smallest and k-th largest mean of a subset of the pairs
// (Hartigan, 1969). Null if so few pairs leave it open.
function pairedInterval(differences) {
  const n = differences.length, all = n <= EXACT;
  const subsets = all ? 2 ** n : DRAWN, k = Math.ceil((ALPHA * subsets) / 2) - 1;
  if (k < 1) return null;
  const means = new Float64Array(subsets - 1), bit = randomBits(1);
  if (all) {
    const sums = new Float64Array(subsets), sizes = new Uint8Array(subsets);
    for (let i = 0, width = 1; i < n; i++, width *= 2) {
      for (let j = 0; j < width; j++) {
        sums[width + j] = sums[j] + differences[i];
        sizes[width + j] = sizes[j] + 1;
      }
    }
    for (let i = 1; i < subsets; i++) means[i - 1] = sums[i] / sizes[i];
  } else {
    for (let i = 0; i < means.length; i++) {
      let sum = 0, number = 0;
      while (!number) for (const d of differences) if (bit()) { sum += d; number += 1; }
      means[i] = sum / number;
    }
  }
  means.sort();
  return [means[k - 1], means[means.length - k]];
}

// Holm's correction over the tests that can show anything (Tarone, 1990).
function correctTests(tests) {
  const family = tests.filter(test => test.least < ALPHA).sort((a, b) => a.p - b.p);
  let least = 0;
  family.forEach((test, rank) => {
    least = Math.max(least, Math.min(1, (family.length - rank) * test.p));
    test.adjusted = least;
    test.family = family.length;
  });
  return tests;
}

function pairedWord(test) {
  if (!test.n) return "no common seed";
  if (test.least === 1 && test.difference === 0) return "equal";
  if ((test.adjusted ?? test.p) < ALPHA) return test.difference > 0 ? "higher" : "lower";
  return test.least * (test.family ?? 1) >= ALPHA ? "too few pairs to tell" : "not shown";
}
