//! Where everything stands on the page of devices, for every number of them and every size.

use ratatui::layout::Rect;

use super::super::sheet::list_rows;
use super::{device, facts, processes};
use crate::rates::Frame;
use crate::tui::app::App;

/// Least text of a device beside its timeline; half of a wide body if that is more.
const TEXT: u16 = 86;
/// From this width on timelines stand beside the text of more than two devices.
const SIDE: u16 = 112;
/// So many devices get large charts.
const FEW: usize = 2;
/// Highest timeline of a device, and of a mean, worth its rows.
const CHART_MAX: u16 = 16;
const MEAN_MAX: u16 = 6;

/// Lines of the page. They may be more than the body has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// Lines of facts about all devices.
    pub head: u16,
    /// Lines of each device: 1, or 3 and more.
    pub device_rows: u16,
    /// Cells for the text of a device.
    pub text_width: u16,
    /// Where the timelines begin that stand beside the text; none where they stand below.
    pub side_x: Option<u16>,
    /// Lines of each timeline below the text.
    pub chart_rows: u16,
    /// Lines of the timelines of memory and power; 0 where there are none.
    pub mean_rows: u16,
    devices: usize,
    processes: usize,
}

impl Plan {
    /// The plan for a body.
    pub fn of(frame: &Frame, app: &App, body: Rect) -> Self {
        let devices = frame.gpus.len();
        let few = devices <= FEW;
        let side = !few && body.width >= SIDE;
        let text = TEXT.max(body.width / 2);
        let head = list_rows(body.width, &facts::pieces(frame, app));
        let processes = processes::rows(frame, app);
        let mut plan = Self {
            head,
            device_rows: 1,
            text_width: if side { text } else { body.width },
            side_x: side.then(|| body.x + text + 1),
            chart_rows: u16::from(!side),
            mean_rows: 0,
            devices,
            processes,
        };
        let body_rows = usize::from(body.height);
        let listed = processes.min(4);
        // All numbers of a few devices; of more, those that three or four lines hold.
        let most = match few {
            true => frame.gpus.iter().map(|gpu| device::rows(gpu, body.width)).fold(4, u16::max).min(6),
            false => 4,
        };
        for rows in (3..=most).rev() {
            let dense = Self { device_rows: rows, ..plan };
            if dense.processes_line() + listed <= body_rows || few && rows == 3 {
                plan = dense;
                break;
            }
        }
        if few {
            plan.grow(body_rows.saturating_sub(plan.processes_line() + processes.min(8)));
        }
        plan
    }

    /// Gives spare lines to the charts of a few devices: half of them to their use, a quarter each to memory and power.
    fn grow(&mut self, spare: usize) {
        let devices = self.devices.max(1);
        let spare = spare + devices * usize::from(self.chart_rows);
        let share = |rows: usize, most: u16| u16::try_from(rows).unwrap_or(u16::MAX).min(most);
        self.mean_rows = share(spare / (2 * devices + 2), MEAN_MAX);
        self.chart_rows = share((spare - 2 * usize::from(self.mean_rows)) / devices, CHART_MAX).max(1);
    }

    /// The heading of devices of one line each.
    pub fn heading_line(&self) -> Option<usize> {
        (self.device_rows == 1).then(|| usize::from(self.head))
    }

    /// First line of a device.
    pub fn device_line(&self, i: usize) -> usize {
        usize::from(self.head) + usize::from(self.device_rows == 1) + i * usize::from(self.device_rows)
    }

    /// First line of a device's timeline below the text.
    pub fn chart_line(&self, i: usize) -> usize {
        self.device_line(self.devices) + i * usize::from(self.chart_rows)
    }

    /// First line of the timeline of memory (0) or power (1).
    pub fn mean_line(&self, i: usize) -> usize {
        self.chart_line(self.devices) + i * usize::from(self.mean_rows)
    }

    /// The time axis.
    pub fn ruler_line(&self) -> usize {
        self.mean_line(2)
    }

    /// First line of the processes.
    pub fn processes_line(&self) -> usize {
        self.ruler_line() + 1
    }

    /// Lines in all.
    pub fn end(&self) -> usize {
        self.processes_line() + self.processes
    }
}
