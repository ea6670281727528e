// Draws a page: cards, then sections of blocks. What it shows is JSON in the page itself, which a live
// page asks for again. Each kind of block has one function in DRAW, which returns its node and, where
// a reader's choices must outlive new values, a way to update it. Texts are never taken for HTML.
"use strict";

const COLOURS = 8;
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function el(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value != null) node.setAttribute(name, value);
  }
  node.append(...children.flat(9).filter((each) => each != null && each !== false));
  return node;
}

// A text in which `commands` are code.
const prose = (text) =>
  text.split("`").map((part, place) => (place % 2 ? el("code", null, part) : part));

function elapsed(seconds) {
  const whole = Math.round(Math.abs(seconds));
  const [hours, minutes, rest] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  const two = (number) => String(number).padStart(2, "0");
  const sign = seconds < -0.5 ? "-" : "";
  if (Math.abs(seconds) < 10 && seconds % 1) return `${seconds.toFixed(1)}s`;
  if (hours) return `${sign}${hours}h${two(minutes)}`;
  return minutes ? `${sign}${minutes}m${two(rest)}` : `${sign}${rest}s`;
}

function scaled(value, steps) {
  const found = steps.find(([least]) => Math.abs(value) >= least) || steps[steps.length - 1];
  return `${Number((value / found[1]).toPrecision(3))}${found[2]}`;
}
const POWERS = [[1e12, 1e12, "T"], [1e9, 1e9, "G"], [1e6, 1e6, "M"], [1e4, 1e3, "k"], [0, 1, ""]];
const FORMATS = {
  share: (value) => `${Number((value * 100).toPrecision(3))} %`,
  seconds: (value) => (Math.abs(value) < 1 ? scaled(value * 1e3, [[0, 1, " ms"]]) : scaled(value, [[0, 1, " s"]])),
  bytes: (value) => scaled(value, POWERS.map(([least, by, unit]) => [least, by, ` ${unit}B`])),
  dollars: (value) => `$${scaled(value, POWERS)}`,
  hours: (value) => `${scaled(value, POWERS)} h`,
  plain: (value) => scaled(value, POWERS),
};
const formatted = (value, unit) => (value == null ? "" : (FORMATS[unit] || FORMATS.plain)(value));

// Charts of one time axis: a zoom of one is that of all.
const plots = new Map();
let zoomed = null;

function zoom(range) {
  zoomed = range;
  for (const { plot, whole } of plots.values()) {
    const [min, max] = range || whole();
    plot.setScale("x", { min, max });
  }
}

function onKey(event, plot, whole) {
  const { min, max } = plot.scales.x;
  const span = max - min;
  const moves = {
    ArrowLeft: [-0.2, -0.2], ArrowRight: [0.2, 0.2], "+": [0.2, -0.2], "=": [0.2, -0.2], "-": [-0.3, 0.3],
  };
  if (event.key === "0" || event.key === "Escape") zoom(null);
  else if (moves[event.key]) {
    const [first, last] = whole();
    zoom([Math.max(first, min + moves[event.key][0] * span), Math.min(last, max + moves[event.key][1] * span)]);
  } else return;
  event.preventDefault();
}

const TIMES = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800];

function axis(format, more) {
  return {
    stroke: () => colour("--faint"),
    grid: { stroke: () => colour("--line"), width: 1 },
    ticks: { stroke: () => colour("--line"), width: 1 },
    font: "11px system-ui, sans-serif",
    values: (_, values) => values.map((value) => (value == null ? "" : format(value))),
    ...more,
  };
}

function drawMarks(plot, marks, isWide) {
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.font = `${10 * devicePixelRatio}px system-ui, sans-serif`;
  ctx.textAlign = "left";
  let free = -Infinity;
  for (const mark of marks) {
    const x = plot.valToPos(mark.time, "x", true);
    if (!isWide && mark.tone !== "bad") continue;
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    ctx.strokeStyle = colour(mark.tone === "bad" ? "--bad" : "--faint");
    ctx.globalAlpha = mark.tone === "bad" ? 1 : 0.45;
    ctx.setLineDash([3 * devicePixelRatio, 3 * devicePixelRatio]);
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    if (x < free) continue;
    ctx.globalAlpha = 1;
    ctx.fillStyle = ctx.strokeStyle;
    ctx.fillText(mark.text, x + 3 * devicePixelRatio, bbox.top + bbox.height - 4 * devicePixelRatio);
    free = x + ctx.measureText(mark.text).width + 8 * devicePixelRatio;
  }
  ctx.restore();
}

// What a legend shows while nobody points at its chart.
const lastOf = (values) => values.findLast((value) => value != null) ?? 0;

const joined = (series) =>
  series.length > 1 ? uPlot.join(series.map((each) => [each.x, each.y])) : [series[0].x, series[0].y];

function described(block) {
  const lines = block.series.map((each) => {
    const values = each.y.filter((value) => value != null);
    const [least, most] = values.reduce(([low, high], v) => [Math.min(low, v), Math.max(high, v)], [Infinity, -Infinity]);
    const last = formatted(values[values.length - 1], block.unit);
    return `${each.name || "value"}: ${formatted(least, block.unit)} to ${formatted(most, block.unit)}, last ${last}`;
  });
  return `${block.title}. ${lines.join("; ")}. Arrow keys move, plus and minus zoom, 0 shows all.`;
}

// A plot in a figure: as wide as its place, in the reader's colours, with the figure's keys.
function placed(block, options, data, keys) {
  const place = el("div", { class: "plot", tabindex: 0, role: "img", "aria-label": described(block), onkeydown: keys });
  const figure = el("figure", { class: block.wide ? "whole" : null }, el("figcaption", null, block.title), place);
  const plot = new uPlot({ width: 400, height: block.wide ? 220 : 175, padding: [8, 22, 0, 0], ...options }, data, place);
  new ResizeObserver(() => {
    const width = place.clientWidth;
    if (width && width !== plot.width) plot.setSize({ width, height: plot.height });
  }).observe(place);
  return { figure, plot, place };
}

function drawChart(block, key) {
  let data = joined(block.series);
  let marks = block.marks;
  const whole = () => [data[0][0], data[0][data[0].length - 1] + (data[0].length > 1 ? 0 : 1)];
  const name = (each, place) => each.name || (block.series.length > 1 ? `line ${place + 1}` : block.title);
  const options = {
    legend: { show: true },
    cursor: { sync: { key: "time" }, drag: { x: true, y: false, setScale: false }, points: { size: 6 } },
    scales: {
      x: { time: false },
      y: {
        range: (_, low, high) => {
          if (low == null) return [0, 1];
          const floor = block.unit !== "plain" || (low >= 0 && low < high / 2) ? Math.min(0, low) : low;
          if (block.unit === "share") return [floor, Math.max(1, high)];
          const room = (high - floor) * 0.06 || Math.abs(high) * 0.1 || 1;
          return [floor === 0 ? 0 : floor - room, high + room];
        },
      },
    },
    axes: [axis(elapsed, { incrs: TIMES, space: 60, size: 32 }), axis((value) => formatted(value, block.unit), { size: 62 })],
    series: [
      { label: "after", value: (plot, value) => elapsed(value ?? lastOf(plot.data[0])) },
      ...block.series.map((each, place) => ({
        label: name(each, place),
        stroke: () => colour(`--c${place % COLOURS}`),
        width: 1.5,
        spanGaps: true,
        points: { show: each.x[0] === each.x[each.x.length - 1] }, // a line of no width is not seen
        value: (plot, value, line) => formatted(value ?? lastOf(plot.data[line]), block.unit),
      })),
    ],
    hooks: {
      draw: [(plot) => drawMarks(plot, marks, block.wide)],
      setSelect: [
        (plot) => {
          if (plot.select.width < 3) return;
          const from = plot.posToVal(plot.select.left, "x");
          zoom([from, plot.posToVal(plot.select.left + plot.select.width, "x")]);
          plot.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
        },
      ],
    },
  };
  const { figure, plot, place } = placed(block, options, data, (event) => onKey(event, plot, whole));
  plot.over.addEventListener("dblclick", () => zoom(null));
  plots.set(key, { plot, whole });
  if (zoomed) plot.setScale("x", { min: zoomed[0], max: zoomed[1] });
  const names = block.series.map((each) => each.name).join("\n");
  return {
    node: figure,
    update: (next) => {
      if (next.series.map((each) => each.name).join("\n") !== names) return false;
      data = joined(next.series);
      marks = next.marks;
      place.setAttribute("aria-label", described(next));
      plot.setData(data, !zoomed);
      return true;
    },
  };
}

function drawScatter(block) {
  const sizes = [6, 7, 10, 12];
  const options = {
    scales: { x: { time: false, distr: 3 }, y: { distr: 3 } },
    cursor: { drag: { x: false, y: false }, points: { show: false } },
    axes: [axis((v) => formatted(v, block.x_unit), { space: 60 }), axis((v) => formatted(v, block.unit), { size: 62 })],
    legend: { live: false },
    series: [
      {},
      ...block.series.map((each, place) => ({
        label: each.name,
        stroke: () => colour(each.line ? "--c0" : `--c${(place + 7) % COLOURS}`),
        width: each.line ? 1.5 : 0,
        paths: each.line ? undefined : () => null,
        spanGaps: true,
        points: { show: true, size: sizes[place], fill: () => colour(each.line ? "--c0" : `--c${(place + 7) % COLOURS}`) },
      })),
    ],
    hooks: { setCursor: [showNearest] },
  };
  const near = el("p", { class: "faint", "aria-live": "polite" }, "Point at a dot for its cluster.");
  const data = joined(block.series);
  function showNearest(plot) {
    const { left, top } = plot.cursor;
    let [best, least] = [null, 400];
    for (const each of block.series) {
      each.x.forEach((x, place) => {
        const apart = (plot.valToPos(x, "x") - left) ** 2 + (plot.valToPos(each.y[place], "y") - top) ** 2;
        if (apart < least) [best, least] = [each.names[place], apart];
      });
    }
    if (best) near.textContent = best;
  }
  const { figure } = placed(block, options, data, null);
  figure.append(near);
  return { node: figure };
}

function drawBars(block) {
  const all = block.rows.flatMap((row) => row.bars);
  const from = Math.min(...all.map((bar) => bar.begin));
  const span = Math.max(...all.map((bar) => bar.end)) - from || 1;
  const amount = (value) => (block.unit === "time" ? elapsed(value) : formatted(value, block.unit));
  const names = [...new Set(all.map((bar) => bar.name))];
  const tone = (name) => `background:var(--c${names.indexOf(name) % COLOURS})`;
  const rows = block.rows.flatMap((row) => {
    const words = row.bars.map((bar) => `${bar.name} ${amount(bar.end - bar.begin)}`).join(", ");
    const bars = row.bars.map((bar) => {
      const bounds = `left:${((bar.begin - from) / span) * 100}%;width:${((bar.end - bar.begin) / span) * 100}%;`;
      return el("i", { style: bounds + tone(bar.name), title: `${bar.name}: ${amount(bar.end - bar.begin)}` });
    });
    return [
      el("span", { class: "name", title: row.name }, row.name),
      el("div", { class: "row", role: "img", "aria-label": `${row.name}: ${words}` }, bars),
    ];
  });
  const ends = el("div", { class: "ends" }, el("span", null, amount(0)), el("span", null, amount(span)));
  const legend = names.map((name) => el("span", null, el("i", { style: tone(name) }), name));
  const bars = el("div", { class: "bars" }, rows, el("span"), ends);
  return {
    node: el("figure", { class: block.wide ? "whole" : null }, el("figcaption", null, block.title), bars, el("div", { class: "legend" }, legend)),
  };
}

function cellNode(cell) {
  if (typeof cell === "string") return [cell];
  if (cell.share != null) {
    const bar = el("b", { style: `width:${Math.min(1, Math.max(0, cell.share)) * 100}%` });
    return [el("span", { class: "share" }, el("i", { "aria-hidden": "true" }, bar), cell.text)];
  }
  if (cell.log) return [el("a", { href: "#logs", onclick: () => showLog(cell.log) }, cell.text)];
  if (cell.href) return [el("a", { href: cell.href }, cell.text)];
  return [el("span", { class: cell.tone }, cell.text)];
}

const MOST_ROWS = 50;

function sortKey(cell) {
  const text = typeof cell === "string" ? cell : cell.text;
  const value = typeof cell === "string" ? null : (cell.share ?? cell.order);
  return value ?? (/^[$]?-?[\d,.]+/.test(text) ? Number.parseFloat(text.replace(/[$,]/g, "")) : text);
}

function drawTable(block) {
  let rows = block.rows;
  let by = null;
  let shown = MOST_ROWS;
  const picked = new Set();
  const body = el("tbody");
  const heads = block.columns.map((name, place) => {
    const sort = el("button", { type: "button", onclick: () => order(place) }, name);
    return el("th", { scope: "col", class: block.numbers.includes(name) ? "number" : null }, sort);
  });
  const more = el("button", { type: "button", class: "more", onclick: () => { shown = Infinity; fill(); } });
  const compare = el("button", { type: "button", disabled: true, onclick: () => { location.href = block.pick + [...picked].join(","); } });
  function fill() {
    const made = rows.slice(0, shown).map((row) => {
      const cells = row.map((cell, place) =>
        el("td", { class: block.numbers.includes(block.columns[place]) ? "number" : null }, cellNode(cell)),
      );
      return el("tr", null, block.pick ? el("td", null, picker(row[0].text)) : null, cells);
    });
    body.replaceChildren(...made);
    more.hidden = rows.length <= shown;
    more.textContent = `Show all ${rows.length}`;
    compare.textContent = `Compare ${picked.size || ""} ticked`;
    compare.disabled = picked.size < 2;
  }
  function picker(name) {
    const toggle = (event) => { picked[event.target.checked ? "add" : "delete"](name); fill(); };
    return el("input", { type: "checkbox", checked: picked.has(name), "aria-label": `compare ${name}`, onchange: toggle });
  }
  function sorted() {
    if (!by) return;
    const factor = by.down ? -1 : 1;
    rows = [...rows].sort((one, other) => {
      const [a, b] = [sortKey(one[by.place]), sortKey(other[by.place])];
      return factor * (typeof a === typeof b ? (a > b) - (a < b) : typeof a === "number" ? -1 : 1);
    });
  }
  function order(place) {
    by = { place, down: by?.place === place && !by.down };
    heads.forEach((head) => head.removeAttribute("aria-sort"));
    heads[place].setAttribute("aria-sort", by.down ? "descending" : "ascending");
    sorted();
    fill();
  }
  fill();
  const head = el("thead", null, el("tr", null, block.pick ? el("td") : null, heads));
  const scroll = el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": `table of ${block.title}` }, el("table", null, head, body));
  return {
    node: el("div", { class: "box whole" }, block.pick ? el("div", { class: "tools" }, compare) : null, scroll, more),
    update: (next) => {
      if (next.columns.join() !== block.columns.join()) return false;
      rows = next.rows;
      sorted();
      fill();
      return true;
    },
  };
}

let showLog = () => {};

function drawLog(block) {
  let hosts = block.hosts;
  const choice = el("select", { "aria-label": "host", onchange: fill });
  const search = el("input", { type: "search", placeholder: "Search these lines", "aria-label": "search", oninput: fill });
  const found = el("span", { class: "faint", "aria-live": "polite" });
  const whole = el("a", null, "Whole log");
  const text = el("pre", { tabindex: 0, "aria-label": "log lines" });
  function options() {
    const kept = choice.value || hosts[0].host;
    choice.replaceChildren(...hosts.map((each) => el("option", { value: each.host }, `${each.host} (${each.group})`)));
    choice.value = hosts.some((each) => each.host === kept) ? kept : hosts[0].host;
  }
  function marked(line, wanted) {
    const at = wanted ? line.toLowerCase().indexOf(wanted) : -1;
    if (at < 0) return [line];
    return [line.slice(0, at), el("mark", null, line.slice(at, at + wanted.length)), line.slice(at + wanted.length)];
  }
  function fill() {
    const host = hosts.find((each) => each.host === choice.value);
    const wanted = search.value.toLowerCase();
    const lines = host.lines.filter(([, line]) => line.toLowerCase().includes(wanted));
    const isAtEnd = text.scrollTop + text.clientHeight >= text.scrollHeight - 8;
    text.replaceChildren(
      ...lines.map(([time, line]) => el("div", null, el("span", { class: "time" }, elapsed(time)), ...marked(line, wanted))),
    );
    const last = host.lines.length < host.count ? `last ${host.lines.length} of ` : "";
    const lineCount = (count) => `${count} line${count === 1 ? "" : "s"}`;
    found.textContent = wanted ? `${lineCount(lines.length)} found in the ${last}${host.count}` : last + lineCount(host.count);
    whole.hidden = !host.href;
    whole.href = host.href || "";
    if (isAtEnd) text.scrollTop = text.scrollHeight;
  }
  showLog = (host) => { choice.value = host; search.value = ""; fill(); };
  options();
  fill();
  requestAnimationFrame(() => { text.scrollTop = text.scrollHeight; });
  return {
    node: el("div", { class: "box whole" }, el("div", { class: "tools" }, choice, search, found, whole), text),
    update: (next) => { hosts = next.hosts; options(); fill(); return true; },
  };
}

const DRAW = {
  chart: drawChart,
  scatter: drawScatter,
  bars: drawBars,
  table: drawTable,
  log: drawLog,
  text: (block) => ({ node: el("p", { class: `whole ${block.tone || ""}` }, prose(block.text)) }),
  list: (block) => ({ node: el("div", { class: "box whole" }, el("h3", null, block.title), el("ol", null, block.items.map((item) => el("li", null, prose(item))))) }),
  facts: (block) => {
    const long = (text) => el("details", null, el("summary", null, `${text.slice(0, 80)} ...`), text);
    const rows = block.rows.map(([label, text]) => [el("dt", null, label), el("dd", null, text.length > 600 ? long(text) : text)]);
    return { node: el("div", { class: "box whole" }, el("dl", null, rows)) };
  },
};

const drawn = new Map();
const slug = (title) => title.toLowerCase().replace(/[^a-z0-9]+/g, "-");

function blockNode(block, key) {
  const json = JSON.stringify(block);
  const old = drawn.get(key);
  if (old && (old.json === json || (old.kind === block.kind && old.update && old.update(block)))) {
    old.json = json;
    return old.node;
  }
  plots.get(key)?.plot.destroy();
  plots.delete(key);
  const made = { json, kind: block.kind, ...DRAW[block.kind](block, key) };
  drawn.set(key, made);
  return made.node;
}

const sections = new Map();

// Nodes that stay are not moved: moving one would lose its focus and its place in a long text.
function put(parent, nodes) {
  const isSame = parent.childNodes.length === nodes.length && nodes.every((each, at) => parent.childNodes[at] === each);
  if (!isSame) parent.replaceChildren(...nodes);
}

function sectionNode(section) {
  const id = slug(section.title);
  if (!sections.has(id)) {
    const grid = el("div", { class: "grid" });
    sections.set(id, { grid, node: el("section", { id, "aria-label": section.title }, el("h2", null, section.title), grid) });
  }
  const { grid, node } = sections.get(id);
  put(grid, section.blocks.map((block, at) => blockNode(block, `${id}/${block.title || at}`)));
  return node;
}

function drawPage(page) {
  document.title = page.title;
  const back = page.back ? el("p", null, el("a", { href: page.back }, "All jobs")) : null;
  const state = page.state ? el("span", { class: `state ${page.tone}` }, page.state) : null;
  document.querySelector("header").replaceChildren(
    ...[back, el("h1", null, page.title), state, el("p", { class: "faint" }, page.subtitle)].filter(Boolean),
  );
  const cards = page.cards.map((card) =>
    el("section", { class: `card ${card.wide ? "wide" : ""}` }, el("h2", null, card.label),
      el("div", { class: `value ${card.tone || ""}` }, prose(card.value)), card.note ? el("p", { class: "faint" }, prose(card.note)) : null),
  );
  const links = page.sections.map((each) => el("a", { href: `#${slug(each.title)}` }, each.title));
  document.querySelector("nav div").replaceChildren(...links);
  document.querySelector("nav").hidden = links.length < 2;
  const main = document.querySelector("main");
  main.firstElementChild.replaceChildren(...cards);
  put(main, [main.firstElementChild, ...page.sections.map(sectionNode)]);
  document.querySelector("footer").textContent = page.footer;
}

function say(text) {
  const notice = document.querySelector(".notice");
  notice.hidden = !text;
  notice.textContent = text;
}

async function follow(page) {
  while (page.refresh) {
    await new Promise((wake) => setTimeout(wake, page.refresh * 1e3));
    if (document.hidden) continue;
    try {
      const answer = await fetch(page.source);
      if (!answer.ok) throw new Error(`${answer.status}: ${await answer.text()}`);
      page = await answer.json();
      const [x, y] = [scrollX, scrollY];
      drawPage(page);
      scrollTo(x, y);
      say("");
    } catch (error) {
      say(`This page is not being updated: ${error.message}. It shows the state before.`);
    }
  }
}

const first = JSON.parse(document.getElementById("page").textContent);
drawPage(first);
follow(first);
const redraw = () => plots.forEach(({ plot }) => plot.redraw());
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
matchMedia("print").addEventListener("change", redraw);
