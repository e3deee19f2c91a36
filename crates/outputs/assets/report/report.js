// Replaces the drawn timelines with ones that show values under the cursor and zoom, all on one time axis.
(() => {
  "use strict";
  const numbers = JSON.parse(document.getElementById("numbers").textContent);
  if (typeof uPlot === "undefined" || !numbers.charts.length) return;
  const style = getComputedStyle(document.documentElement);
  const property = (name) => style.getPropertyValue("--" + name).trim();
  const edges = numbers.edges, first = edges[0], last = edges[edges.length - 1];
  const section = document.getElementById("timelines").parentElement, band = section.querySelector(".band > div");
  const plots = [], shown = document.createElement("span");
  shown.setAttribute("role", "status");
  // Room beside the plots: the same for all of them, and for the band of verdicts above.
  const left = parseFloat(property("left")), right = parseFloat(property("right"));
  // The report's own clock, not the reader's.
  const iso = (time) => new Date((time + numbers.offset) * 1000).toISOString();
  const day = (time) => iso(time).slice(5, 10), days = day(first) !== day(last);
  const clock = (time) => (days ? day(time) + " " : "") + iso(time).slice(11, 19);
  let busy = false;

  // Shows this stretch of time in every chart.
  const show = (min, max) => {
    if (busy) return;
    const least = Math.min(5, last - first);
    if (max - min < least) { const middle = (min + max) / 2; min = middle - least / 2; max = middle + least / 2; }
    if (min < first) { max = Math.min(last, max + first - min); min = first; }
    if (max > last) { min = Math.max(first, min - (max - last)); max = last; }
    busy = true;
    plots.forEach((plot) => plot.setScale("x", { min, max }));
    busy = false;
    band.style.width = 100 * (last - first) / (max - min) + "%";
    band.style.marginLeft = -100 * (min - first) / (max - min) + "%";
    shown.textContent = "shown: " + clock(min) + " to " + clock(max);
  };
  const range = () => { const { min, max } = plots[0].scales.x; return [min, max]; };
  const zoom = (factor) => { const [min, max] = range(), half = (max - min) / 2 * factor, at = (min + max) / 2; show(at - half, at + half); };
  const pan = (share) => { const [min, max] = range(), by = (max - min) * share; show(min + by, max + by); };

  // Whole seconds, so that no two marks show the same time.
  const steps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200].concat([1, 2, 5, 10, 30, 100].map((many) => many * 86400));
  // The day is shown where it changes, and marks whose text would not fit have none.
  const times = (self, marks, axis, space, step) => marks.map((mark, nth) => {
    if (self.valToPos(mark, "x") > self.bbox.width / devicePixelRatio + right - 34) return "";
    const time = step >= 86400 ? "" : iso(mark).slice(11, step < 60 ? 19 : 16);
    return time + (days && (nth === 0 || day(mark) !== day(marks[nth - 1])) ? "\n" + day(mark) : "");
  });

  numbers.charts.forEach((chart, place) => {
    const figure = document.getElementById(chart.id), isLast = place === numbers.charts.length - 1;
    const svg = figure.querySelector("svg");
    const keys = [...figure.querySelectorAll(".key")].map((key) => key.lastChild), means = keys.map((key) => key.data);
    const caption = figure.querySelector("figcaption span"), about = caption.textContent;
    // A column's value stands at its end; the first one also begins there.
    const values = chart.series.map((series) => [series.values[0], ...series.values]);
    // In a stack each area begins at the sum of those below, and covers those above it.
    const drawn = chart.stacked
      ? values.map((own, nth) => own.map((value, at) => value === null ? null : values.slice(0, nth + 1).reduce((sum, below) => sum + below[at], 0)))
      : values;
    const order = chart.stacked ? drawn.map((_, nth) => drawn.length - 1 - nth) : drawn.map((_, nth) => nth);
    const unit = (chart.unit === "%" || chart.unit === "/s" ? "" : " ") + chart.unit;
    const timeHeight = isLast ? (days ? 44 : 28) : 0;
    const plot = new uPlot({
      width: figure.clientWidth, height: 106 + timeHeight, padding: [8, right, isLast ? 0 : 8, 0],
      tzDate: (time) => uPlot.tzDate(new Date((time + numbers.offset) * 1000), "Etc/UTC"),
      cursor: {
        sync: { key: "time" }, drag: { x: true, y: false }, points: { show: !chart.stacked },
        dataIdx: (self, series, near, time) => time > edges[near] && near < edges.length - 1 ? near + 1 : near,
      },
      legend: { show: false },
      scales: { x: { time: true }, y: { range: [0, chart.top] } },
      axes: [
        { size: timeHeight, space: 76, incrs: steps, stroke: property("dim"), grid: { stroke: property("rule"), width: 1 }, ticks: { show: isLast, stroke: property("rule") }, values: isLast ? times : () => [] },
        { size: left, splits: () => [0, chart.top / 2, chart.top], stroke: property("dim"), grid: { stroke: property("rule"), width: 1 }, ticks: { show: false }, values: (_, marks) => marks.map((mark) => (mark >= 10000 ? mark / 1000 + "k" : mark) + (chart.unit === "%" ? "%" : "")) },
      ],
      series: [{}].concat(order.map((nth, place) => ({
        label: chart.series[nth].name,
        stroke: property(chart.series[nth].color),
        width: chart.stacked ? 0 : 2,
        fill: chart.stacked || place === 0 ? property(chart.series[nth].color) + (chart.stacked ? "" : "40") : undefined,
        points: { show: false },
        paths: uPlot.paths.stepped({ align: -1 }),
      }))),
      hooks: {
        setScale: [(self, key) => { if (key === "x" && !busy) show(self.scales.x.min, self.scales.x.max); }],
        setCursor: [(self) => {
          const at = self.cursor.idx == null ? null : self.cursor.idxs[1];
          caption.textContent = at == null ? about : clock(edges[at]) + ":";
          chart.series.forEach((series, nth) => {
            const value = at == null ? null : values[nth][at];
            keys[nth].data = at == null ? means[nth] : series.name + " " + (value === null ? "–" : (chart.unit === "%" ? Math.round(value) : value) + unit);
          });
        }],
      },
    }, [edges].concat(order.map((nth) => drawn[nth])), (self, ready) => { svg.replaceWith(self.root); ready(); });
    plot.root.tabIndex = 0;
    plot.root.setAttribute("role", "img");
    plot.root.setAttribute("aria-label", svg.getAttribute("aria-label") + "; arrow keys move, plus and minus zoom, 0 shows everything");
    plot.root.addEventListener("keydown", (event) => {
      const does = { ArrowLeft: () => pan(-.2), ArrowRight: () => pan(.2), "+": () => zoom(.5), "=": () => zoom(.5), "-": () => zoom(2), 0: () => show(first, last) }[event.key];
      if (does) { event.preventDefault(); does(); }
    });
    plots.push(plot);
  });

  const bar = document.createElement("div");
  bar.className = "zoom";
  [["Zoom in", () => zoom(.5)], ["Zoom out", () => zoom(2)], ["Earlier", () => pan(-.5)], ["Later", () => pan(.5)], ["All", () => show(first, last)]].forEach(([name, does]) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = name;
    button.addEventListener("click", does);
    bar.append(button);
  });
  bar.append("or drag over a chart; ", shown);
  section.querySelector("figure").before(bar);
  section.querySelector(".ends").remove();
  section.classList.add("live");
  show(first, last);
  addEventListener("resize", () => plots.forEach((plot) => plot.setSize({ width: plot.root.parentElement.clientWidth, height: plot.height })));
  addEventListener("beforeprint", () => plots.forEach((plot) => plot.setSize({ width: 680, height: plot.height })));
})();
