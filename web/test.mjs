// Opens pages in Chromium and checks what a reader sees and can do. Run by tests/all/page.rs:
//   node test.mjs plots PAGE…    pages of runs with a comparison
//   node test.mjs drawn PAGE…    pages of runs in which nothing may be compared
//   node test.mjs runs PAGE…     pages of all runs: two of one's own, and foreign ones
//   node test.mjs layers PAGE…   pages of runs with layers: a bar for each case, and stacks that a click narrows
//   node test.mjs text PAGE…     pages without plots
//   node test.mjs forest PAGE…   pages of several runs: the forest plot, and nothing that needs a script
//   node test.mjs findings PAGE… docs/findings.html: its slider, and tables that scroll by themselves
//   node test.mjs hostile PAGE…  pages of a run whose servers and files want to do something
// Says what it saw, or fails.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import axe from "axe-core";
import { chromium } from "playwright-core";

const [kind, ...pages] = process.argv.slice(2);
const executablePath = process.env.CHROMIUM ?? "/usr/bin/chromium";
// Root needs --no-sandbox; the pages are our own files.
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
const PLOTS = ["percentiles", "distribution", "times", "trials", "cost"];
const PHONE = { width: 360, height: 740 };

/** A page in a context of its own, and what went wrong in it. */
async function open(url, options = {}) {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  page.setDefaultTimeout(60_000);
  const troubles = [];
  page.on("console", (message) => ["error", "warning"].includes(message.type()) && troubles.push(message.text()));
  page.on("pageerror", (error) => troubles.push(error.message));
  page.on("request", (request) => /^(file|blob|data):/.test(request.url()) || troubles.push(`asks for ${request.url()}`));
  await page.goto(url);
  return { page, troubles, close: () => context.close() };
}

async function drawn(page) {
  await page.waitForSelector("#cost figure svg");
  const groups = await page.evaluate(() => JSON.parse(document.getElementById("data").textContent).groups);
  // Latencies that contradict their throughput are left out of the data, as a busy machine makes them.
  const timed = groups.filter(({ cases }) => cases.some(({ plots }) => plots?.response ?? plots?.service));
  for (const id of PLOTS) {
    const svgs = await page.$$eval(`#${id} figure svg`, (all) => all.map((svg) => [svg.getAttribute("role"), svg.getAttribute("aria-label"), svg.querySelectorAll("path, rect, circle").length]));
    const wanted = ["percentiles", "distribution"].includes(id) ? timed : groups;
    assert.equal(svgs.length, wanted.length, `plots of ${id}`);
    for (const [role, label, marks] of svgs) assert.ok(role === "img" && label && marks > 2, `a plot of ${id}: ${[role, label, marks]}`);
  }
  const text = await page.locator("main").innerText();
  for (const word of ["NaN", "undefined", "Infinity", "[object"]) assert.ok(!text.includes(word), `the page says ${word}`);
  return groups.length;
}

async function forest(page) {
  const [title, text, marks] = await page.$eval("svg.forest", (svg) => [svg.querySelector("title").textContent, svg.querySelector("desc").textContent, svg.querySelectorAll(".mark").length]);
  assert.ok(title && text && marks > 0, `the forest plot: ${[title, text, marks]}`);
}

const unfold = (page) => page.evaluate(() => document.querySelectorAll("details").forEach((details) => (details.open = true)));

/** WCAG 2.2 AA, contrast included. */
async function accessible(page, name) {
  await unfold(page);
  // By DevTools, which the page's own policy does not hold back.
  await page.evaluate(axe.source);
  const { violations } = await page.evaluate(() => window.axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] }));
  const found = violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html.slice(0, 160)).slice(0, 3).join(" | ")}`);
  assert.deepEqual(found, [], `${name}: axe`);
}

/** Nothing but what scrolls by itself is wider than the window. */
async function fits(page) {
  const [width, wide] = await page.evaluate(() => {
    // A log scrolls by itself, of pictures the text counts, and most heads of columns are for screen readers only.
    const inside = (one) => one.parentElement.closest("pre, svg, thead") && one.tagName !== "text";
    const wide = [...document.querySelectorAll("main *")].filter((one) => !inside(one) && one.tagName !== "THEAD" && one.getBoundingClientRect().right > innerWidth + 0.5);
    return [document.documentElement.scrollWidth, wide.map((one) => one.outerHTML.slice(0, 120))];
  });
  assert.ok(width <= PHONE.width, `${width} px wide: ${wide.join("\n")}`);
  assert.deepEqual(wide, []);
}

/** What a page shows first: a table of ratios, on a phone as wide as the window. */
async function reading(page) {
  const ratios = page.locator(".reading table");
  assert.ok(await ratios.isVisible(), "a phone shows no table of ratios");
  const [rows, above] = await ratios.evaluate((table) => [[...table.tBodies[0].rows].filter((row) => row.cells.length > 2).length, table.getBoundingClientRect().top < document.querySelector("svg.forest").getBoundingClientRect().top]);
  const compared = await page.evaluate(() => JSON.parse(document.getElementById("data").textContent).result.comparisons.filter(({ metric }) => metric === "throughput").length);
  assert.equal(rows, compared);
  assert.ok(above, "the table of ratios is not the first");
}

/** Long tables: by the keyboard sorted by a column of numbers and back, and filtered. */
async function tables(page) {
  const all = page.locator("table.sortable:visible");
  for (let place = 0; place < (await all.count()); place++) {
    const table = all.nth(place);
    const names = () => table.locator("tbody tr:visible > th").allInnerTexts();
    const before = await names();
    const head = table.locator("thead th[data-number]").first();
    const column = await head.evaluate((cell) => cell.cellIndex);
    const numbers = async () => (await table.locator("tbody tr").evaluateAll((rows, column) => rows.map((row) => row.cells[column]?.textContent.replaceAll(",", "")), column)).map(parseFloat).filter((number) => !Number.isNaN(number));
    await head.getByRole("button").focus();
    for (const [sort, order] of [["descending", (one, other) => other - one], ["ascending", (one, other) => one - other]]) {
      await page.keyboard.press("Enter");
      assert.equal(await head.getAttribute("aria-sort"), sort);
      const found = await numbers();
      assert.ok(found.length > 1);
      assert.deepEqual(found, found.toSorted(order), sort);
    }
    await page.keyboard.press("Enter");
    assert.equal(await head.getAttribute("aria-sort"), null);
    assert.deepEqual(await names(), before, "as it was");
    const filter = page.locator(".filter:visible input").nth(place);
    const word = before.at(-1).split(/\s/)[0];
    await filter.fill(word);
    const left = await table.locator("tbody tr:not(.group):visible").allInnerTexts();
    assert.ok(left.length > 0 && left.length < before.length, `“${word}” leaves ${left.length} of ${before.length}`);
    await filter.fill("no such row");
    assert.deepEqual(await names(), []);
    await filter.fill("");
    assert.deepEqual(await names(), before);
  }
  return all.count();
}

/** Each section's plots as pictures that need nothing of the page. */
async function pictures(page) {
  const sections = ["ratios", ...PLOTS];
  assert.equal(await page.locator(".pictures button").count(), 2 * sections.length);
  for (const id of sections) {
    const save = async (type) => {
      const button = page.locator(`#${id} .pictures`).getByText(type.toUpperCase(), { exact: true });
      // Nobody saves faster, and Chromium saves nothing of the eleventh file in a second.
      await page.waitForTimeout(200);
      const [file] = await Promise.all([page.waitForEvent("download"), button.click()]);
      assert.match(file.suggestedFilename(), new RegExp(`^[\\w.-]+-${id}\\.${type}$`));
      return readFileSync(await file.path());
    };
    const svg = (await save("svg")).toString();
    const root = svg.match(/^<svg [^>]*width="(\d+)" height="(\d+)"/);
    assert.ok(root && !svg.includes("var(--") && !svg.includes("<style"), svg.slice(0, 200));
    const title = await page.locator(`#${id} h2`).innerText();
    assert.ok(svg.includes(`>${title}</text>`), `the picture of ${id} has no title`);
    const png = await save("png");
    assert.equal(png.toString("latin1", 1, 4), "PNG");
    assert.deepEqual([png.readUInt32BE(16), png.readUInt32BE(20)], [2 * root[1], 2 * root[2]]);
    assert.ok((await colours(page, png)) > 3, `the PNG of ${id} is empty`);
  }
}

/** How many colours a picture has. */
const colours = (page, png) =>
  page.evaluate(async (source) => {
    const image = new Image();
    image.src = source;
    await image.decode();
    const canvas = Object.assign(document.createElement("canvas"), { width: image.width, height: image.height });
    const context = canvas.getContext("2d");
    context.drawImage(image, 0, 0);
    return new Set(new Uint32Array(context.getImageData(0, 0, image.width, image.height).data.buffer)).size;
  }, `data:image/png;base64,${png.toString("base64")}`);

/** The pointer shows one trial, whatever else is near. */
async function reads(page) {
  const mark = page.locator("#times figure svg").first().locator("g[stroke] > path").last();
  await mark.scrollIntoViewIfNeeded();
  const { x, y, width, height } = await mark.boundingBox();
  await page.mouse.move(x + width / 2, y + height / 2);
  const shown = page.locator("#times svg text", { has: page.locator("tspan") });
  await shown.first().waitFor();
  const texts = await shown.evaluateAll((all) => all.map((text) => [...text.querySelectorAll("tspan")].map((line) => line.textContent).join("|")));
  assert.equal(texts.length, 1, texts.join("\n"));
  assert.match(texts[0], /round \d+, .* s\|.*p50 .*, p99 .*\|.* requests\/s$/);
}

async function slides(page) {
  for (const id of ["handler", "rate"]) {
    const read = () => page.evaluate((id) => [document.querySelector(`output[for=${id}]`).textContent, document.querySelector("#matter tbody").innerText], id);
    const before = await read();
    await page.focus(`#${id}`);
    for (let press = 0; press < 8; press++) await page.keyboard.press("ArrowRight");
    const after = await read();
    assert.notEqual(before[0], after[0], id);
    assert.notEqual(before[1], after[1], `${id} changes no number`);
    assert.equal(await page.getAttribute(`#${id}`, "aria-valuetext"), after[0]);
  }
}

/** Every control can be reached by the keyboard and has a name. */
async function controls(page) {
  const all = await page.$$eval("button, input, summary, a[href]", (found) => found.map((one) => one.innerText || one.labels?.[0]?.innerText));
  assert.ok(all.every(Boolean), `a control without a name: ${all}`);
  await page.evaluate(() => document.activeElement.blur());
  const reached = new Set();
  for (let press = 0; press < 200; press++) {
    await page.keyboard.press("Tab");
    reached.add(await page.evaluate(() => (document.activeElement.innerText || document.activeElement.labels?.[0]?.innerText)));
  }
  for (const name of all) assert.ok(reached.has(name), `the keyboard does not reach ${name}`);
}

async function download(page, name) {
  const [file] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name }).click()]);
  return [file.suggestedFilename(), readFileSync(await file.path(), "utf8")];
}

/** Fields of a line (RFC 4180). */
const fields = (line) => [...line.matchAll(/("(?:[^"]|"")*"|[^,]*)(,|$)/g)].slice(0, -1).map(([, field]) => field);

async function downloads(page) {
  const [name, json] = await download(page, "Result as JSON");
  const result = JSON.parse(json);
  assert.equal(result.schema, "lasthop/1");
  assert.match(name, /^[\w.-]+\.json$/);
  for (const [button, rows] of [["Cases as CSV", result.cases.length], ["Trials as CSV", result.cases.reduce((sum, { trials }) => sum + trials, 0)]]) {
    const [file, text] = await download(page, button);
    assert.match(file, /^[\w.-]+\.csv$/);
    const lines = text.split("\r\n");
    assert.equal(lines.pop(), "");
    assert.equal(lines.length, rows + 1, button);
    const columns = fields(lines[0] + ",").length;
    for (const line of lines) assert.equal(fields(line + ",").length, columns, line);
  }
}

/** Text, tables and the forest plot need no script. */
async function withoutScript(url) {
  const { page, close } = await open(url, { javaScriptEnabled: false, viewport: PHONE });
  assert.ok((await page.locator(".answer").innerText()).length > 10);
  assert.ok((await page.locator("table").count()) > 0 && (await page.locator("svg.forest").isVisible()));
  assert.equal(await page.locator("table button, tr[hidden]").count(), 0);
  assert.ok(await page.getByText("This plot needs JavaScript").first().isVisible());
  await close();
}

/** The page of a run of an hour: the trials of this one, again and again. */
async function long(url) {
  const { page, troubles, close } = await open(url);
  const count = await page.evaluate(() => {
    const script = document.getElementById("data");
    const data = JSON.parse(script.textContent);
    const cases = data.groups.flatMap(({ cases }) => cases).filter(({ plots }) => plots?.trials.rate.length);
    for (const { plots } of cases) {
      const { trials } = plots;
      const length = trials.rate.length;
      const wanted = Math.ceil(20_000 / cases.length);
      for (const [name, column] of Object.entries(trials)) {
        for (let at = length; at < wanted; at++) column.push(column[at - length] + (name === "at_ms" ? 30_000 : name === "round" ? 3 : 0));
      }
    }
    script.textContent = JSON.stringify(data).replaceAll("<", "\\u003c");
    return cases.reduce((sum, { plots }) => sum + plots.trials.rate.length, 0);
  });
  assert.ok(count >= 20_000);
  const html = await page.evaluate(() => {
    document.querySelectorAll(".drawn, .pictures, .downloads, .filter, #matter > *").forEach((old) => old.remove());
    return `<!doctype html>${document.documentElement.outerHTML}`;
  });
  await page.setContent(html);
  await drawn(page);
  const marks = await page.$$eval(":is(#trials, #times) figure svg :is(path, circle, line)", (all) => all.length);
  assert.ok(marks < 10_000, `${marks} marks for ${count} trials`);
  assert.deepEqual(troubles, []);
  await close();
  return `${count} trials in ${(html.length / 1e6).toFixed(1)} MB`;
}

async function plots(url) {
  const { page, troubles, close } = await open(url, { acceptDownloads: true });
  const groups = await drawn(page);
  const took = await page.evaluate(() => Math.round(performance.getEntriesByName("drawn")[0].startTime));
  await forest(page);
  await slides(page);
  await downloads(page);
  await pictures(page);
  await reads(page);
  await unfold(page);
  const sorted = await tables(page);
  await controls(page);
  assert.deepEqual(troubles, []);
  await accessible(page, "light");
  await close();
  for (const options of [{ colorScheme: "dark" }, { viewport: PHONE }, { viewport: PHONE, colorScheme: "dark" }]) {
    const { page, troubles, close } = await open(url, options);
    await drawn(page);
    if (options.viewport) {
      await unfold(page);
      await fits(page);
      await reading(page);
      assert.equal(await tables(page), sorted);
    }
    assert.deepEqual(troubles, []);
    await accessible(page, JSON.stringify(options));
    await close();
  }
  await withoutScript(url);
  return `${groups} groups, ${sorted} long tables, drawn after ${took} ms; with ${await long(url)}`;
}

/** In which nothing may be compared. */
async function seen(url) {
  for (const options of [{}, { viewport: PHONE, colorScheme: "dark" }]) {
    const { page, troubles, close } = await open(url, options);
    await drawn(page);
    if (options.viewport) await fits(page);
    await downloads(page);
    assert.deepEqual(troubles, []);
    await accessible(page, JSON.stringify(options));
    await close();
  }
  return "drawn";
}

/** Pages of several runs need no script. */
async function several(url) {
  for (const options of [{ javaScriptEnabled: false }, { viewport: PHONE, colorScheme: "dark" }]) {
    const { page, close } = await open(url, options);
    assert.ok((await page.locator(".answer").innerText()).length > 10);
    assert.ok((await page.locator("table").count()) > 0 && (await page.locator("svg.forest").isVisible()));
    if (options.viewport) await forest(page);
    await close();
  }
  return text(url);
}

/** Of two runs that were made here, the second says what changed; those from elsewhere say so. */
async function runs(url) {
  const { page, close } = await open(url);
  const rows = await page.$$eval("tbody tr", (all) => all.map(({ cells }) => [...cells].map(({ textContent }) => textContent)));
  const own = rows.filter(([, , , state]) => state === "complete");
  const foreign = rows.filter(([, , , state]) => state === "complete, foreign");
  assert.equal(own.length, 2);
  const changes = own.map((cells) => cells.at(-1));
  assert.match(changes[0], /chang|can be said|faster|slower|grew|shrank|gained|lost/i);
  assert.equal(changes[1], "");
  assert.ok(foreign.length > 0 && foreign.every((cells) => cells.at(-1) === "made elsewhere"));
  for (const [name, experiment, began, , machine, kernel, size, result] of own) assert.ok(name && experiment && began && machine && kernel && parseFloat(size) > 0 && result, name);
  await close();
  for (const options of [{}, { viewport: PHONE }]) {
    const { page, close } = await open(url, options);
    assert.equal(await tables(page), 1);
    await page.getByLabel("Filter").fill("foreign");
    assert.equal(await page.locator("tbody tr:visible").count(), foreign.length);
    assert.equal(await page.locator("output").innerText(), `${foreign.length} of ${rows.length} rows`);
    await page.getByLabel("Filter").fill("");
    await controls(page);
    await close();
  }
  return text(url);
}

async function text(url) {
  for (const options of [{}, { viewport: PHONE, colorScheme: "dark" }]) {
    const { page, troubles, close } = await open(url, options);
    if (options.viewport) await fits(page);
    for (const link of await page.$$eval("a[href]", (all) => all.map(({ href }) => href))) readFileSync(new URL(link));
    assert.deepEqual(troubles, []);
    await accessible(page, JSON.stringify(options));
    await close();
  }
  return "text";
}

async function findings(url) {
  for (const options of [{}, { viewport: PHONE, colorScheme: "dark" }]) {
    const { page, troubles, close } = await open(url, options);
    await unfold(page);
    const [width, window] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
    assert.ok(width <= window, `${width} px wide`);
    const read = () => page.locator(".yours").allInnerTexts();
    const before = await read();
    await page.focus("#work");
    for (let press = 0; press < 8; press++) await page.keyboard.press("ArrowRight");
    const after = await read();
    assert.ok(before.length > 2 && before.every((text, at) => text !== after[at]), `${before}: ${after}`);
    assert.equal(await page.getAttribute("#work", "aria-valuetext"), after[0]);
    assert.deepEqual(troubles, []);
    await accessible(page, JSON.stringify(options));
    await close();
  }
  return "findings";
}

async function layers(url) {
  for (const options of [{}, { viewport: PHONE, colorScheme: "dark" }]) {
    const { page, troubles, close } = await open(url, options);
    await page.waitForSelector("#layers figure svg");
    const bars = await page.$$eval("#layers figure svg rect", (all) => all.map((bar) => bar.getBoundingClientRect().width));
    assert.ok(bars.length > 4 && Math.max(...bars) > 20, `bars: ${bars}`);
    const known = await page.locator("#layers .legend li").allInnerTexts();
    for (const title of ["TCP", "Unix sockets", "Scheduling and waking"]) assert.ok(known.includes(title), `the legend has no ${title}: ${known}`);
    const captions = () => page.locator("#stacks figcaption").allInnerTexts();
    assert.ok((await captions()).every((caption) => caption.endsWith(" in all")), "all functions at first");
    await page.locator("#stacks g.flame", { hasText: "server" }).first().click();
    assert.ok((await captions()).every((caption) => caption.endsWith(" in server")), `narrowed: ${await captions()}`);
    await page.getByRole("button", { name: "All functions" }).click();
    assert.ok((await captions()).every((caption) => caption.endsWith(" in all")), "all functions again");
    await page.locator("#stacks svg g.flame").first().focus();
    await page.keyboard.press("ArrowDown");
    const chosen = await page.evaluate(() => document.activeElement.querySelector("title").textContent.split(": ")[0]);
    await page.keyboard.press("Enter");
    assert.ok((await captions()).every((caption) => caption.endsWith(` in ${chosen}`)), `narrowed by a key to ${chosen}: ${await captions()}`);
    assert.ok(await page.evaluate(() => document.activeElement.matches("#stacks g.flame")), "the keyboard is still there");
    await page.keyboard.press("Escape");
    assert.ok((await captions()).every((caption) => caption.endsWith(" in all")), "widened by a key");
    if (options.viewport) await fits(page);
    assert.deepEqual(troubles, []);
    await accessible(page, JSON.stringify(options));
    await close();
  }
  return "layers and stacks";
}

/** What the page shows of others is text; and a script that got into it would not run, nor reach anything. */
async function hostile(url) {
  const { page, troubles, close } = await open(url);
  const shown = await page.locator("main").evaluate((main) => main.textContent);
  assert.ok(shown.includes("<script>window.pwned"), "the page does not show what the servers said");
  assert.deepEqual(troubles, []);
  const read = () => page.evaluate(() => window.pwned);
  assert.equal(await read(), undefined);
  await page.evaluate(() => {
    const script = document.createElement("script");
    script.textContent = "window.pwned = 'script'";
    document.body.append(script);
    document.body.insertAdjacentHTML("beforeend", "<img src=x onerror='window.pwned = 1'><button id=bad onclick='window.pwned = 2'>x</button>");
    document.getElementById("bad").click();
  });
  await page.waitForTimeout(200);
  assert.equal(await read(), undefined);
  const reached = await page.evaluate(() => fetch("http://127.0.0.1:9/").then(() => "reached", () => "kept"));
  assert.equal(reached, "kept");
  assert.ok(troubles.some((trouble) => trouble.includes("Content Security Policy")), troubles.join("\n"));
  assert.ok(!troubles.some((trouble) => trouble.startsWith("asks for")), troubles.join("\n"));
  await close();
  return "nothing ran";
}

for (const page of pages) console.log(`${page}: ${await { plots, drawn: seen, layers, runs, text, findings, forest: several, hostile }[kind](pathToFileURL(page).href)}`);
await browser.close();
