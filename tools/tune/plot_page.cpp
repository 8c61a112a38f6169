#include "tune/plot_page.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "tune/plot_data.hpp"

namespace kda::tune_tool {
namespace {

constexpr const char* kHead = R"page(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>kda-tune</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
:root { color-scheme: light; --ink: #1f2933; --soft: #6b7785; --line: #d8dee6; --paper: #fff; }
body { font: 14px/1.45 system-ui, "DejaVu Sans", sans-serif; color: var(--ink); background: #f4f6f8;
  margin: 0; }
main { max-width: 1180px; margin: 0 auto; padding: 20px; }
h1 { font-size: 20px; margin: 0 0 2px; } h2 { font-size: 15px; margin: 0 0 8px; }
.soft { color: var(--soft); } .row { display: flex; gap: 16px; flex-wrap: wrap; }
.card { background: var(--paper); border: 1px solid var(--line); border-radius: 8px; padding: 14px 16px;
  margin: 14px 0; flex: 1 1 520px; min-width: 0; overflow-x: auto; }
select { font: inherit; padding: 3px 6px; margin-right: 8px; }
svg { display: block; width: 100%; height: auto; } svg text { font-size: 11px; fill: var(--soft); }
svg text.cell { font-size: 11px; } .grid { stroke: #e8ecf1; } .axis { stroke: #9aa5b1; }
table { border-collapse: collapse; width: 100%; } td, th { padding: 3px 10px 3px 0; text-align: left;
  border-bottom: 1px solid var(--line); font-variant-numeric: tabular-nums; }
td.n, th.n { text-align: right; white-space: nowrap; } .key { display: inline-block; width: 10px; height: 10px;
  border-radius: 5px; margin: 0 5px 0 12px; }
code { font: 12px/1.4 ui-monospace, "DejaVu Sans Mono", monospace; }
#tip { position: fixed; pointer-events: none; background: #1f2933; color: #fff; padding: 6px 9px;
  border-radius: 6px; font-size: 12px; max-width: 420px; display: none; white-space: pre-line; }
</style></head><body><main>
<h1>kda-tune</h1><p class="soft" id="about"></p>
<p><label>Problem <select id="which"></select></label> <span id="said"></span></p>
<div class="card"><h2>Convergence</h2><div id="converge"></div></div>
<div class="row"><div class="card"><h2>Heat map, best time in microseconds</h2><p>
<select id="strategy"></select><select id="down"></select><select id="across"></select></p>
<div id="heat"></div></div>
<div class="card"><h2>Roofline</h2><div id="roofline"></div></div></div>
<div class="card"><h2>Finals</h2><div id="finals"></div></div>
<div id="tip"></div></main>
<script>const searches = )page";

constexpr const char* kScript = R"page(;
const $ = id => document.getElementById(id), NS = 'http://www.w3.org/2000/svg';
const COLOURS = { recurrent: '#8f5bb5', chunk: '#3f7fbf', chunk_wgmma: '#1f9d76', segments: '#d9772b', fused: '#c2405f' };
const FINALS = 100;
const colour = name => COLOURS[name] || '#778899';
const words = row => row.strategy + ' ' +
  Object.entries(row.tuning).map(([n, v]) => n + '=' + v).join(' ');
const us = t => t >= 100 ? t.toFixed(0) : t >= 10 ? t.toFixed(1) : t.toFixed(2);
const esc = s => String(s).replace(/[&<>"]/g, c => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' }[c]));

// Each candidate once, by its latest rung: single calls, then graphs, then the finals.
function latest(search) {
  const best = new Map();
  for (const row of search.rows) {
    const at = best.get(words(row));
    if (!at || row.rung >= at.rung) best.set(words(row), row);
  }
  return [...best.values()];
}

function svg(parent, width, height) {
  parent.textContent = '';
  const s = document.createElementNS(NS, 'svg');
  s.setAttribute('viewBox', `0 0 ${width} ${height}`);
  parent.append(s);
  return (name, attributes, text) => {
    const e = document.createElementNS(NS, name);
    for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
    if (text !== undefined) e.textContent = text;
    s.append(e);
    return e;
  };
}
function tip(element, text) {
  element.addEventListener('mousemove', e => {
    const t = $('tip');
    t.textContent = text; t.style.display = 'block';
    t.style.left = Math.min(e.clientX + 14, innerWidth - 430) + 'px'; t.style.top = e.clientY + 12 + 'px';
  });
  element.addEventListener('mouseleave', () => $('tip').style.display = 'none');
}
const explain = row => `${words(row)}\n${us(row.us)} us, quartiles ${us(row.iqr)} apart\n` +
  `${row.registers} registers, ${row.shared} B shared, ${(row.workspace / 1e6).toFixed(1)} MB workspace`;

// 1, 2, 5, 10, ... within a range.
function logTicks(from, to) {
  const ticks = [], steps = to / from > 300 ? [1] : [1, 2, 5];
  for (let e = Math.floor(Math.log10(from)); e <= Math.ceil(Math.log10(to)); ++e) {
    for (const m of steps) { const v = m * 10 ** e; if (v >= from * 0.999 && v <= to * 1.001) ticks.push(v); }
  }
  return ticks;
}
function linearTicks(to) {
  const raw = to / 6, e = 10 ** Math.floor(Math.log10(raw)), step = [1, 2, 5, 10].find(m => m * e >= raw) * e;
  return Array.from({ length: Math.floor(to / step) + 1 }, (_, i) => i * step);
}
const number = v => v >= 1e12 ? v / 1e12 + ' T' : v >= 1e9 ? v / 1e9 + ' G' : +v.toPrecision(3) + '';

function legend(parent, items) {
  const p = document.createElement('p');
  p.className = 'soft'; p.style.margin = '6px 0 0';
  p.innerHTML = items.map(([c, t]) => `<span class="key" style="background:${c}"></span>${esc(t)}`).join('');
  parent.append(p);
}

function converge(search) {
  const W = 1120, H = 330, L = 58, R = 14, T = 10, B = 40;
  const rows = search.rows;
  if (!rows.length) { $('converge').textContent = 'Nothing was timed.'; return; }
  const draw = svg($('converge'), W, H);
  const end = Math.max(...rows.map(r => r.at), 0.1);
  const low = Math.min(...rows.map(r => r.us)) * 0.93;
  const high = Math.min(Math.max(...rows.map(r => r.us)), low * 8) * 1.07;  // slower ones lie on the upper edge
  const x = t => L + (W - L - R) * t / end;
  const y = t => T + (H - T - B) * Math.log(high / Math.min(t, high)) / Math.log(high / low);
  for (const t of logTicks(low, high)) {
    draw('line', { class: 'grid', x1: L, x2: W - R, y1: y(t), y2: y(t) });
    draw('text', { x: L - 7, y: y(t) + 4, 'text-anchor': 'end' }, number(t));
  }
  for (const t of linearTicks(end)) draw('text', { x: x(t), y: H - B + 17, 'text-anchor': 'middle' }, number(t));
  draw('line', { class: 'axis', x1: L, x2: W - R, y1: H - B, y2: H - B });
  draw('text', { x: (L + W) / 2, y: H - 5, 'text-anchor': 'middle' }, 'seconds since the search began');
  draw('text', { x: 13, y: (H - B) / 2, 'text-anchor': 'middle', transform: `rotate(-90 13 ${(H - B) / 2})` }, 'microseconds a call');
  let best = Infinity, path = '';
  for (const row of [...rows].sort((a, b) => a.at - b.at)) {
    if (row.us < best) { path += path ? `H${x(row.at)}V${y(row.us)}` : `M${x(row.at)} ${y(row.us)}`; best = row.us; }
  }
  draw('path', { d: path + `H${W - R}`, fill: 'none', stroke: '#1f2933', 'stroke-width': 1.5, opacity: 0.75 });
  for (const row of rows) {
    const final = row.rung === FINALS;
    const dot = draw('circle', { cx: x(row.at), cy: y(row.us), r: final ? 5 : row.rung > 0 ? 4 : 3,
      fill: row.rung > 0 && !final ? '#fff' : colour(row.strategy), stroke: final ? '#1f2933' : colour(row.strategy),
      'stroke-width': 1.3, opacity: row.rung > 0 ? 1 : 0.6 });
    tip(dot, explain(row) + `\n${final ? 'finals' : row.rung > 0 ? 'graphs' : 'single calls'}, device ${row.device}`);
  }
  legend($('converge'), [...Object.keys(search.strategies)].filter(s => rows.some(r => r.strategy === s))
    .map(s => [colour(s), s]).concat([['#1f2933', 'best so far (small: single calls; ring: graphs; dark rim: finals)']]));
}

function heat(search) {
  const strategy = $('strategy').value, down = $('down').value, across = $('across').value;
  const rows = latest(search).filter(r => r.strategy === strategy);
  const values = name => [...new Set(rows.map(r => r.tuning[name]))].sort((a, b) => a - b);
  const ys = values(down), xs = values(across);
  if (!rows.length) { $('heat').textContent = 'Nothing of it was timed.'; return; }
  const W = 540, L = 62, T = 26, cell = Math.min(90, (W - L - 8) / xs.length), h = 34;
  const draw = svg($('heat'), W, T + ys.length * h + 4);
  const best = new Map();
  for (const r of rows) {
    const key = r.tuning[down] + '/' + r.tuning[across];
    if (!best.has(key) || r.us < best.get(key).us) best.set(key, r);
  }
  const times = [...best.values()].map(r => r.us), low = Math.min(...times), high = Math.max(...times, low * 1.02);
  ys.forEach((yv, j) => {
    draw('text', { x: L - 8, y: T + j * h + h / 2 + 4, 'text-anchor': 'end' }, yv);
    xs.forEach((xv, i) => {
      const r = best.get(yv + '/' + xv), f = r ? Math.log(r.us / low) / Math.log(high / low) : 0;
      const box = draw('rect', { x: L + i * cell + 1, y: T + j * h + 1, width: cell - 2, height: h - 2, rx: 3,
        fill: r ? `hsl(172 ${60 - 15 * f}% ${30 + 60 * f}%)` : '#eef1f4' });
      if (!r) return;
      draw('text', { class: 'cell', x: L + (i + 0.5) * cell, y: T + j * h + h / 2 + 4, 'text-anchor': 'middle',
        style: `fill:${f < 0.5 ? '#fff' : '#1f2933'};pointer-events:none${r.us === low ? ';font-weight:700' : ''}` }, us(r.us));
      tip(box, explain(r));
    });
  });
  xs.forEach((xv, i) => draw('text', { x: L + (i + 0.5) * cell, y: T - 8, 'text-anchor': 'middle' }, xv));
  const p = document.createElement('p');
  p.className = 'soft'; p.textContent = `Down ${down}, across ${across}; each cell is its best over the other tunables. Grey: not timed.`;
  $('heat').append(p);
}

function roofline(search) {
  const W = 540, H = 330, L = 58, R = 12, T = 12, B = 42, roof = search.roof;
  const points = latest(search).map(r => ({ r, x: roof.flops / (roof.bytes + 2 * r.workspace), y: roof.flops / r.us * 1e6 }));
  if (!points.length) { $('roofline').textContent = 'Nothing was timed.'; return; }
  const draw = svg($('roofline'), W, H);
  let x0 = Math.min(...points.map(p => p.x)) / 2, x1 = Math.max(...points.map(p => p.x)) * 2;
  if (roof.peak && roof.bandwidth) x1 = Math.max(x1, roof.peak / roof.bandwidth * 1.5);
  const y0 = Math.min(...points.map(p => p.y)) / 1.5;
  const y1 = Math.max(...points.map(p => p.y), roof.peak || 0, roof.bandwidth && !roof.peak ? roof.bandwidth * x1 : 0) * 1.4;
  const x = v => L + (W - L - R) * Math.log(v / x0) / Math.log(x1 / x0);
  const y = v => T + (H - T - B) * Math.log(y1 / v) / Math.log(y1 / y0);
  for (const t of logTicks(y0, y1)) {
    draw('line', { class: 'grid', x1: L, x2: W - R, y1: y(t), y2: y(t) });
    draw('text', { x: L - 6, y: y(t) + 4, 'text-anchor': 'end' }, number(t));
  }
  for (const t of logTicks(x0, x1)) draw('text', { x: x(t), y: H - B + 17, 'text-anchor': 'middle' }, number(t));
  draw('line', { class: 'axis', x1: L, x2: W - R, y1: H - B, y2: H - B });
  draw('text', { x: (L + W) / 2, y: H - 6, 'text-anchor': 'middle' }, 'FLOP a byte: inputs, outputs, states, workspace twice');
  draw('text', { x: 12, y: (H - B) / 2, 'text-anchor': 'middle', transform: `rotate(-90 12 ${(H - B) / 2})` }, "FLOP/s of the recurrence");
  if (roof.bandwidth) {
    const knee = roof.peak ? roof.peak / roof.bandwidth : x1, from = Math.max(x0, y0 / roof.bandwidth);
    let d = `M${x(from)} ${y(roof.bandwidth * from)}L${x(Math.min(knee, x1))} ${y(roof.bandwidth * Math.min(knee, x1))}`;
    if (roof.peak && knee < x1) d += `H${W - R}`;
    draw('path', { d, fill: 'none', stroke: '#1f2933', 'stroke-width': 1.6 });
    draw('text', { x: x(Math.min(knee, x1)) - 6, y: y(roof.bandwidth * Math.min(knee, x1)) - 6, 'text-anchor': 'end' },
      `${(roof.bandwidth / 1e12).toFixed(1)} TB/s${roof.peak ? `, ${(roof.peak / 1e12).toFixed(0)} TFLOP/s` : ''}`);
  }
  for (const p of points) {
    const won = words(p.r) === search.winner;
    tip(draw('circle', { cx: x(p.x), cy: y(p.y), r: won ? 6 : 3.5, fill: colour(p.r.strategy),
      stroke: won ? '#1f2933' : 'none', 'stroke-width': 2, opacity: won ? 1 : 0.55 }),
      explain(p.r) + `\n${(p.y / 1e12).toFixed(2)} TFLOP/s${won ? '\nthe winner' : ''}`);
  }
  legend($('roofline'), [...new Set(points.map(p => p.r.strategy))].map(s => [colour(s), s]));
}

function finals(search) {
  const rows = search.rows.filter(r => r.rung === FINALS).sort((a, b) => a.us - b.us);
  const refused = Object.entries(search.refused).map(([k, v]) => `${v} ${k}`).join(', ');
  $('finals').innerHTML = '<table><tr><th>candidate<th class="n">us<th class="n">quartiles apart' +
    '<th class="n">registers<th class="n">shared B<th class="n">workspace MB<th></tr>' + rows.map(r =>
    `<tr><td><code>${esc(words(r))}</code><td class="n">${us(r.us)}<td class="n">${us(r.iqr)}<td class="n">${r.registers}` +
    `<td class="n">${r.shared}<td class="n">${(r.workspace / 1e6).toFixed(1)}<td>` +
    [words(r) === search.winner ? 'winner' : '', words(r) === search.fallback ? 'default' : ''].filter(s => s).join(', ') +
    '</tr>').join('') + '</table>' + `<p class="soft">${esc(search.decision || 'not through yet')}` +
    `${search.considered ? `; ${search.considered} combinations, ${latest(search).length} timed` : ''}${refused ? `; refused: ${refused}` : ''}</p>`;
}

function choices(select, names, value) {
  select.textContent = '';
  for (const name of names) select.add(new Option(name, name));
  if (names.includes(value)) select.value = value;
}
function tunables(search) {
  const names = search.strategies[$('strategy').value] || [];
  const rows = latest(search).filter(r => r.strategy === $('strategy').value);
  const varied = names.map(n => [n, new Set(rows.map(r => r.tuning[n])).size]).sort((a, b) => b[1] - a[1]).map(e => e[0]);
  choices($('down'), names, varied[1]); choices($('across'), names, varied[0]);
}
function show() {
  const search = searches[$('which').value];
  $('about').textContent = [search.device, search.compiler, search.method, search.date].join(' · ');
  $('said').innerHTML = search.winner ? `<code>${esc(search.winner)}</code>: ${esc(search.decision)}` : 'not through yet';
  const timed = latest(search), names = Object.keys(search.strategies).filter(s => timed.some(r => r.strategy === s));
  choices($('strategy'), names, search.winner ? search.winner.split(' ')[0] : '');
  tunables(search); converge(search); heat(search); roofline(search); finals(search);
}
// A row as plot_data.cpp writes it.
for (const search of searches) {
  search.rows = search.rows.map(([strategy, values, rung, at, device, us, iqr, workspace, registers, shared]) => ({
    strategy, rung, at, device, us, iqr, workspace, registers, shared,
    tuning: Object.fromEntries(search.strategies[strategy].map((name, i) => [name, values[i]])) }));
}
searches.forEach((s, i) => $('which').add(new Option(s.name, i)));
$('which').onchange = show;
$('strategy').onchange = () => { tunables(searches[$('which').value]); heat(searches[$('which').value]); };
$('down').onchange = $('across').onchange = () => heat(searches[$('which').value]);
if (searches.length) show();
</script></body></html>
)page";

// Text inside a script element must not end it.
std::string harmless(std::string text) {
  for (std::size_t at = 0; (at = text.find("</", at)) != std::string::npos; at += 3) {
    text.insert(at + 1, "\\");
  }
  return text;
}

}  // namespace

std::string plot_page(std::span<const tune::JournalContents> journals) {
  cli::Json data = cli::Json::array();
  for (const tune::JournalContents& each : journals) data.push_back(plot_data(each));
  const std::string text = data.dump(-1, ' ', true, cli::Json::error_handler_t::replace);
  return kHead + harmless(text) + kScript;
}

}  // namespace kda::tune_tool
