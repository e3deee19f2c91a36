//! How many lines each part gets on the page of GPUs, for any number of GPUs and any size.

use ratatui::layout::Rect;

use super::device;
use crate::widgets::count;
use trainmon_waits::Frame;

/// Minimum width of a GPU's text beside its timeline; half of a wide body if that is more.
const TEXT: u16 = 86;
/// Minimum width for timelines beside the text of more than two GPUs.
const SIDE: u16 = 112;
/// Up to so many GPUs get large charts.
const FEW: usize = 2;
/// Maximum height of a GPU's timeline, and of a mean's.
const CHART_MAX: u16 = 16;
const MEAN_MAX: u16 = 6;

/// Lines of the parts of the page. They may add up to more than the body has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GpuPlan {
    /// Lines of each GPU: 1, below a heading, or 3 and more.
    pub gpu_rows: u16,
    /// Width of a GPU's text.
    pub text_width: u16,
    /// Column where the timelines beside the text begin; `None` if they are below it.
    pub side_x: Option<u16>,
    /// Lines of each timeline below the text.
    pub chart_rows: u16,
    /// Lines of the timelines of memory and power; 0 if they are left out.
    pub mean_rows: u16,
}

impl GpuPlan {
    /// The plan for a body, with so many lines of facts and of processes.
    pub fn new(frame: &Frame, body: Rect, facts: usize, processes: usize) -> Self {
        let devices = frame.gpus.len();
        let few = devices <= FEW;
        let side = !few && body.width >= SIDE;
        let text = TEXT.max(body.width / 2);
        let mut plan = Self {
            gpu_rows: 1,
            text_width: if side { text } else { body.width },
            side_x: side.then(|| body.x + text + 1),
            chart_rows: u16::from(!side),
            mean_rows: 0,
        };
        let body_rows = usize::from(body.height);
        // All numbers if there are few GPUs; otherwise as many as three or four lines hold.
        let most =
            if few { frame.gpus.iter().map(|gpu| device::rows(gpu, body.width)).fold(4, u16::max).min(6) } else { 4 };
        for gpu_rows in (3..=most).rev() {
            let dense = Self { gpu_rows, ..plan };
            if facts + dense.rows(devices) + processes.min(4) <= body_rows || few && gpu_rows == 3 {
                plan = dense;
                break;
            }
        }
        if few {
            plan.grow(devices, body_rows.saturating_sub(facts + plan.rows(devices) + processes.min(8)));
        }
        plan
    }

    /// Gives spare lines to the charts of a few GPUs: half to their use, a quarter each to memory and power.
    fn grow(&mut self, devices: usize, spare: usize) {
        let devices = devices.max(1);
        let spare = spare + devices * usize::from(self.chart_rows);
        self.mean_rows = count(spare / (2 * devices + 2)).min(MEAN_MAX);
        self.chart_rows = count((spare - 2 * usize::from(self.mean_rows)) / devices).clamp(1, CHART_MAX);
    }

    /// Lines of the GPUs with their heading, their timelines and the time axis.
    fn rows(&self, devices: usize) -> usize {
        let each = usize::from(self.gpu_rows + self.chart_rows);
        usize::from(self.gpu_rows == 1) + devices * each + 2 * usize::from(self.mean_rows) + 1
    }
}
