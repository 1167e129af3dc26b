// Runs the script of a trace page with as much of a browser as it uses, and
// prints, as JSON, what it drew: for each setting of the page the shapes with
// their attributes. node draw.js PAGE.html
"use strict";
const fs = require("fs"), vm = require("vm");

class Element {
  constructor(name) {
    Object.assign(this, { name, attrs: {}, children: [], style: {}, listeners: {}, textContent: "", className: "",
      clientWidth: 1200, clientHeight: 500, scrollTop: 0 });
    this.classList = { add() {}, remove() {}, toggle() {} };
  }
  setAttribute(k, v) { this.attrs[k] = String(v); }
  appendChild(e) { this.children.push(e); return e; }
  append(...list) { list.forEach(e => this.children.push(typeof e === "string" ? Object.assign(new Element("#text"), { textContent: e }) : e)); }
  replaceChildren(...list) { this.children = list; }
  addEventListener(name, f) { this.listeners[name] = f; }
  getBoundingClientRect() { return { left: 0 }; }
  *all() { yield this; for (const c of this.children) yield* c.all(); }
}
const byId = {};
const document = {
  getElementById: id => byId[id] = byId[id] || new Element("div"),
  createElement: name => new Element(name),
  createElementNS: (_, name) => new Element(name),
  querySelectorAll: () => [],
};
const page = fs.readFileSync(process.argv[2], "utf8");
const script = page.slice(page.indexOf("<script>") + 8, page.indexOf("</script>"));
const context = vm.createContext({ document, addEventListener() {}, console });
vm.runInContext(script, context);

const shapes = () => [...byId.chart.all()].slice(1).map(e => ({ name: e.name, text: e.textContent, ...e.attrs,
  title: (e.children.find(c => c.name === "title") || {}).textContent }));
const out = { order: shapes(), verdict: byId.verdict.textContent, counts: byId.counts.textContent };
byId.mode.listeners.change({ target: { value: "time" } });
out.time = shapes();
byId.mode.listeners.change({ target: { value: "order" } });
byId.events.listeners.change({ target: { checked: false } });
out.quiet = shapes();
for (const e of byId.chart.all()) if (e.listeners.click) { e.listeners.click(); break; } // the first piece of work
out.detail = [...byId.detail.all()].map(e => e.textContent).join("\n");
console.log(JSON.stringify(out));
