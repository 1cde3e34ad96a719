// The texts of a page whose contrast with their ground is below 4.5, the least of WCAG AA.
() => {
  const light = c => c.match(/[\d.]+/g).slice(0, 3).map(x => x / 255).map(x => x <= .03928 ? x / 12.92 : ((x + .055) / 1.055) ** 2.4)
      .reduce((sum, x, i) => sum + x * [.2126, .7152, .0722][i], 0);
  const ground = e => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor; if (!/, 0\)$/.test(c)) return c; } };
  return [...document.querySelectorAll('main *')].filter(e => e.offsetParent && [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim()))
      .map(e => [e, light(getComputedStyle(e).color), light(ground(e))])
      .filter(([, a, b]) => (Math.max(a, b) + .05) / (Math.min(a, b) + .05) < 4.5).map(([e]) => e.className + ' ' + e.textContent.slice(0, 40));
}
