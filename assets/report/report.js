// Replaces the drawn timelines with ones that show values under the cursor and zoom, all on one time axis.
(() => {
  "use strict";
  const numbers = JSON.parse(document.getElementById("numbers").textContent);
  if (typeof uPlot === "undefined" || !numbers.charts.length || numbers.times.length < 2) return;
  const style = getComputedStyle(document.documentElement);
  const color = (name) => style.getPropertyValue("--" + name).trim();
  const first = numbers.times[0], last = numbers.times[numbers.times.length - 1];
  const plots = [], shown = document.createElement("span");
  shown.setAttribute("role", "status");
  // The report's own clock, not the reader's.
  const clock = (time, part) => new Date((time + numbers.offset) * 1000).toISOString().slice(...part);
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
    shown.textContent = "shown: " + clock(min, [11, 19]) + " to " + clock(max, [11, 19]);
  };
  const range = () => { const { min, max } = plots[0].scales.x; return [min, max]; };
  const zoom = (factor) => { const [min, max] = range(), half = (max - min) / 2 * factor, at = (min + max) / 2; show(at - half, at + half); };
  const pan = (share) => { const [min, max] = range(), by = (max - min) * share; show(min + by, max + by); };

  numbers.charts.forEach((chart, place) => {
    const figure = document.getElementById(chart.id);
    const svg = figure.querySelector("svg");
    const keys = [...figure.querySelectorAll(".key")];
    const caption = figure.querySelector("figcaption span"), about = caption.textContent;
    const values = chart.series.map((series) => series.values);
    // In a stack each area begins at the sum of those below, and covers those above it.
    const drawn = chart.stacked
      ? values.map((own, nth) => own.map((value, at) => value === null ? null : values.slice(0, nth + 1).reduce((sum, below) => sum + below[at], 0)))
      : values;
    const shown = chart.stacked ? drawn.map((_, nth) => drawn.length - 1 - nth) : drawn.map((_, nth) => nth);
    const unit = chart.unit === "%" || chart.unit === "/s" ? chart.unit : " " + chart.unit;
    const plot = new uPlot({
      width: figure.clientWidth, height: place === numbers.charts.length - 1 ? 138 : 110, tzDate: (time) => uPlot.tzDate(new Date((time + numbers.offset) * 1000), "Etc/UTC"),
      cursor: { sync: { key: "time" }, drag: { x: true, y: false }, points: { show: !chart.stacked } },
      legend: { show: false },
      scales: { x: { time: true }, y: { range: [0, chart.top] } },
      axes: [
        {
          show: place === numbers.charts.length - 1, stroke: color("dim"), size: 28, grid: { show: false }, ticks: { stroke: color("rule") },
          values: (_, marks, axis, space, step) => marks.map((mark) => step >= 86400 ? clock(mark, [5, 10]) : clock(mark, step < 60 ? [11, 19] : [11, 16])),
        },
        { stroke: color("dim"), size: 48, grid: { stroke: color("rule"), width: 1 }, ticks: { show: false }, values: (_, marks) => marks.map((mark) => chart.unit === "%" ? mark + unit : mark) },
      ],
      series: [{}].concat(shown.map((nth, order) => ({
        label: chart.series[nth].name,
        stroke: color(chart.series[nth].color),
        width: chart.stacked ? 0 : 2,
        fill: chart.stacked || order === 0 ? color(chart.series[nth].color) + (chart.stacked ? "" : "40") : undefined,
        points: { show: false },
        paths: uPlot.paths.stepped({ align: -1 }),
      }))),
      hooks: {
        setScale: [(self, key) => { if (key === "x" && !busy) show(self.scales.x.min, self.scales.x.max); }],
        setCursor: [(self) => {
          const at = self.cursor.idx;
          caption.textContent = at == null ? about : clock(numbers.times[at], [11, 19]) + ":";
          chart.series.forEach((series, nth) => {
            const value = at == null ? series.mean : series.values[at];
            keys[nth].lastChild.data = series.name + " " + (value === null ? "–" : value + unit);
          });
        }],
      },
    }, [numbers.times].concat(shown.map((nth) => drawn[nth])), (self, ready) => { svg.replaceWith(self.root); ready(); });
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
  document.querySelector("figure").before(bar);
  show(first, last);
  addEventListener("resize", () => plots.forEach((plot) => plot.setSize({ width: plot.root.parentElement.clientWidth, height: plot.height })));
  addEventListener("beforeprint", () => plots.forEach((plot) => plot.setSize({ width: 680, height: plot.height })));
})();
