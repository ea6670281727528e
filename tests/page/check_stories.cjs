// Reads the pages of a server as a person with a question does, and prints as JSON what each finds.
//
//     node check_stories.cjs CHROMIUM ADDRESS < STORIES [FOLDER]      screenshots go to the folder
//
// A story begins at the list of jobs. A step clicks what has a name (a link, a button, a box to
// tick), or chooses an option of a list; what a step types is no click. Of each story: the texts that
// it names which are not in the window at its end, or not in their order if it has one, and messages
// of the console.
const fs = require("fs");
const path = require("path");
const puppeteer = require("puppeteer-core");

// Returns which of some texts do not lie in the window, or before the one that they follow. The words
// of a row or card are one text.
function missing(texts, inOrder) {
  const isSeen = (node) => {
    const box = node.getBoundingClientRect();
    return box.height > 0 && box.top >= 0 && box.bottom <= innerHeight && box.left >= 0 && box.left < innerWidth;
  };
  const parts = [...document.querySelectorAll("tr, .card, p, li, dd, figure, pre div, .tools span")];
  const seen = parts.filter(isSeen).map((each) => each.innerText.replace(/\s+/g, " "));
  const places = texts.map((text) => seen.findIndex((each) => each.includes(text)));
  return texts.filter((_, i) => places[i] < (inOrder && i ? places[i - 1] : 0));
}

const ROLES = ["link", "button", "checkbox"];
const named = (name) => ROLES.map((role) => `::-p-aria([name="${name}"][role="${role}"])`).join(", ");

async function read(browser, address, story, folder) {
  const page = await browser.newPage();
  const messages = [];
  page.on("console", (message) => messages.push(message.text()));
  page.on("pageerror", (error) => messages.push(String(error)));
  page.setDefaultTimeout(10000);
  await page.setViewport({ width: 1280, height: 900 });
  await page.goto(address, { waitUntil: "networkidle0" });
  for (const { click, choose, type } of story.steps) {
    try {
      if (click) await page.locator(named(click)).click();
      if (choose) await page.select("select", choose);
      if (type) await page.locator("input[type=search]").fill(type);
    } catch (error) {
      messages.push(`${click || choose || type}: ${error}`);
    }
    await page.waitForNetworkIdle({ idleTime: 200 });
  }
  const found = { missing: await page.evaluate(missing, story.sees, story.in_order), messages };
  if (folder) await page.screenshot({ path: path.join(folder, story.name.replace(/\W+/g, "-") + ".png") });
  await page.close();
  return found;
}

async function main() {
  const [chromium, address, folder] = process.argv.slice(2);
  const args = ["--no-sandbox", "--disable-dev-shm-usage"];
  const browser = await puppeteer.launch({ executablePath: chromium, args, protocolTimeout: 300000 });
  try {
    const opened = await browser.newPage();
    await opened.goto(address);
    const list = new URL("/", address).href;
    const found = {};
    for (const story of JSON.parse(fs.readFileSync(0))) {
      found[story.name] = await read(browser, list, story, folder);
    }
    console.log(JSON.stringify(found, null, 1));
  } finally {
    await browser.close();
  }
}

main();
