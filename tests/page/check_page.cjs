// Opens an HTML file as several readers do, and prints as JSON what is wrong with it.
//
//     node check_page.cjs CHROMIUM FILE [FOLDER]      screenshots go to the folder
//
// Of each view: requests beyond the file, console messages and errors, what axe-core finds, and
// whether the page is wider than the window.
const fs = require("fs");
const path = require("path");
const puppeteer = require("puppeteer-core");

const VIEWS = {
  light: { width: 1200, height: 900, scheme: "light" },
  dark: { width: 1200, height: 900, scheme: "dark" },
  phone: { width: 390, height: 844, scheme: "light" },
  print: { width: 800, height: 1100, scheme: "dark", media: "print" },
};

async function look(browser, file, name, view, folder) {
  const page = await browser.newPage();
  const url = "file://" + path.resolve(file);
  const found = { requests: [], messages: [], violations: [], wide: false };
  page.on("request", (request) => request.url() !== url && found.requests.push(request.url()));
  page.on("console", (message) => found.messages.push(message.text()));
  page.on("pageerror", (error) => found.messages.push(String(error)));
  await page.setViewport({ width: view.width, height: view.height });
  const session = await page.createCDPSession(); // puppeteer's own calls undo each other
  await session.send("Emulation.setEmulatedMedia", {
    media: view.media || "screen",
    features: [{ name: "prefers-color-scheme", value: view.scheme }],
  });
  await page.goto(url, { waitUntil: "networkidle0" });
  found.wide = await page.evaluate(
    () => document.documentElement.scrollWidth > document.documentElement.clientWidth,
  );
  if (folder) await page.screenshot({ path: path.join(folder, name + ".png"), fullPage: !!process.env.WHOLE_PAGE });
  await page.evaluate(fs.readFileSync(require.resolve("axe-core/axe.min.js"), "utf8"));
  const report = await page.evaluate(() => window.axe.run());
  found.violations = report.violations.map((each) => ({
    rule: each.id,
    impact: each.impact,
    help: each.help,
    nodes: each.nodes.length,
    first: each.nodes[0].html,
    why: each.nodes[0].failureSummary,
  }));
  await page.close();
  return found;
}

async function main() {
  const [chromium, file, folder] = process.argv.slice(2);
  const browser = await puppeteer.launch({
    executablePath: chromium,
    args: ["--no-sandbox", "--disable-dev-shm-usage"],
    protocolTimeout: 300000,
  });
  try {
    const found = {};
    for (const [name, view] of Object.entries(VIEWS)) {
      found[name] = await look(browser, file, name, view, folder);
    }
    console.log(JSON.stringify(found, null, 1));
  } finally {
    await browser.close();
  }
}

main();
