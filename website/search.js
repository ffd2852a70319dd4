// Part of Sphinx's search: what comes first, snippets that need no server, and pasted messages.

const siteQuery = (new URLSearchParams(location.search).get("q") || "").toLowerCase().trim();

/** The steps, in their order, and the glossary's entries first; lists of messages and changes last. */
Scorer.score = ([page, , anchor, , score]) => {
  const step = page.match(/^solutions\/(\d\d)/);
  if (step || (page === "docs/glossary" && anchor)) return score + 10 - (step ? step[1] / 100 : 0);
  return /messages|CHANGELOG/.test(page) ? score - 10 : score;
};

/** Sphinx reads a result's page for its snippet. A browser refuses that to a page opened as a file, but no script. */
window.fetch = address => new Promise(done => {
  const script = document.createElement("script");
  script.src = address.replace(/^\.\/|^/, "_texts/").replace(/\.html$/, ".js");
  script.onload = () => done(new Response(window.pageText));
  document.head.append(script);
});

/** A snippet shows the words as they were typed, if the page has them so, and of its prose rather than of its code. */
const summaryOfWords = Search.makeSearchSummary;
Search.makeSearchSummary = (html, words, anchor) => {
  const prose = html.replace(/<div class="highlight"[^]*?<\/div>|<summary[^]*?<\/summary>/g, "");
  const said = Search.htmlToText(prose, anchor).toLowerCase().includes(siteQuery);
  return summaryOfWords(said ? prose : html, new Set([...words, siteQuery]), anchor);
};

/** A pasted message has values of its own, so where no page has all its words, those with most of them are found. */
const pagesWithAll = Search.performTermsSearch;
Search.performTermsSearch = (words, excluded) => {
  const strict = pagesWithAll(words, excluded);
  if (strict.length || words.size < 5) return strict;
  const pages = new Map();
  for (const word of words)
    for (const result of pagesWithAll(new Set([word]), excluded))
      pages.set(result[0], [...result.slice(0, 4), (pages.get(result[0])?.[4] || 0) + 10, ...result.slice(5)]);
  return [...pages.values()].filter(result => result[4] >= 0.6 * 10 * words.size);
};
